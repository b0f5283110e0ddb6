// SPDX-License-Identifier: MIT
// perfetto.js - loads a trace into the engine of the Perfetto viewer, as the viewer's page
// does, and queries it.
//
//	node perfetto.js ENGINE FILE QUERY...
//
// ENGINE is the directory of engine_bundle.js and trace_processor*.wasm. Each query is SQL
// of the viewer; each of its rows is printed as JSON on a line. The engine is a worker of a
// browser, which understands protocol buffers: perfetto/trace_processor.proto names the
// numbers used here.
'use strict';

const fs = require('fs');
const path = require('path');
const {webcrypto} = require('crypto');
const vm = require('vm');

const [engine, file, ...queries] = process.argv.slice(2);

// The environment of a worker in a browser, as far as the engine uses it.
class Request {
  open(method, url) {
    this.url = url;
  }
  send() {
    const bytes = fs.readFileSync(path.join(engine, this.url));

    this.status = 200;
    this.response =
        bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  }
}

const worker = {
  TextDecoder, TextEncoder, URL, performance, setTimeout, clearTimeout,
  crypto: webcrypto,
  XMLHttpRequest: Request,
  WorkerGlobalScope: class {},
  console: {log() {}, warn() {}, error: console.error},
  importScripts() {},
  location: {href: 'file:///'},
};
worker.self = worker;
vm.createContext(worker);

function varint(n) {
  const out = [];

  for (; n > 127; n = Math.floor(n / 128)) {
    out.push(n % 128 + 128);
  }
  return [...out, n];
}

function number(field, n) {
  return Buffer.from([...varint(field * 8), ...varint(n)]);
}

function bytes(field, b) {
  return Buffer.concat([Buffer.from([...varint(field * 8 + 2), ...varint(b.length)]), b]);
}

// Integers as BigInt: time stamps exceed a double's precision.
function readVarint(b, at) {
  let n = 0n;
  let shift = 0n;

  for (;; shift += 7n) {
    const byte = b[at.i++];

    n |= BigInt(byte & 127) << shift;
    if (byte < 128) {
      return BigInt.asIntN(64, n);
    }
  }
}

// The fields of a message, as [number, value].
function fields(b) {
  const out = [];
  const at = {i: 0};

  while (at.i < b.length) {
    const key = Number(readVarint(b, at));
    let value;

    if (key % 8 === 0) {
      value = readVarint(b, at);
    } else if (key % 8 === 1) {
      value = b.readDoubleLE(at.i);
      at.i += 8;
    } else {
      const length = Number(readVarint(b, at));

      value = b.subarray(at.i, at.i + length);
      at.i += length;
    }
    out.push([Math.floor(key / 8), value]);
  }
  return out;
}

function packed(b) {
  const out = [];

  for (const at = {i: 0}; at.i < b.length;) {
    out.push(readVarint(b, at));
  }
  return out;
}

const ASK = {APPEND: 1, FINALIZE: 2, QUERY: 3};
const port = {
  replies: [],
  postMessage(b) {
    this.replies.push(Buffer.from(b));
  },
};
let asked = 0;

// Returns the values of one field of all replies. 5: "fatal_error".
function ask(method, argument, field) {
  const parts = [number(1, ++asked), number(2, method), ...argument];
  const message = bytes(1, Buffer.concat(parts));

  port.replies = [];
  port.onmessage({data: vm.runInContext('b => new Uint8Array(b)', worker)(message)});
  const all = port.replies.flatMap(fields).flatMap(([, reply]) => fields(reply));
  for (const [number, value] of all) {
    if (number === 5) {
      throw Error(value.toString());
    }
  }
  return all.filter(([number]) => number === field).map(([, value]) => value);
}

// Of an AppendTraceDataResult and such, field 2 is an error in words.
function must(results, field) {
  for (const [number, value] of results.flatMap(fields)) {
    if (number === field && value.length > 0) {
      throw Error(value.toString());
    }
  }
  return results;
}

// A batch of cells: their types, then the values of each type in their order.
function cells(batch) {
  const of = {types: [], ints: [], doubles: [], strings: []};

  for (const [number, value] of fields(batch)) {
    if (number === 1) {
      of.types.push(...packed(value));
    } else if (number === 2) {
      of.ints.push(...packed(value));
    } else if (number === 3) {
      for (let i = 0; i < value.length; i += 8) {
        of.doubles.push(value.readDoubleLE(i));
      }
    } else if (number === 5) {
      of.strings.push(...value.toString().split('\0'));
    }
  }
  return of.types.map(t => {
    return t === 2n ? Number(of.ints.shift()) :
        t === 3n    ? of.doubles.shift() :
        t === 4n    ? of.strings.shift() :
                      null;
  });
}

function query(sql) {
  const results = must(ask(ASK.QUERY, [bytes(103, bytes(1, Buffer.from(sql)))], 203), 2);
  const all = results.flatMap(fields);
  const columns = all.filter(([number]) => number === 1).length;
  const values = all.filter(([number]) => number === 3).flatMap(([, batch]) => cells(batch));

  while (values.length > 0) {
    console.log(JSON.stringify(values.splice(0, columns)));
  }
}

function main() {
  worker.onmessage({data: port});
  must(ask(ASK.APPEND, [bytes(101, fs.readFileSync(file))], 201), 2);
  must(ask(ASK.FINALIZE, [], 212), 1);
  queries.forEach(query);
}

vm.runInContext(fs.readFileSync(path.join(engine, 'engine_bundle.js'), 'utf8'), worker);
setImmediate(() => {
  try {
    main();
  } catch (e) {
    console.error(e.message);
    process.exitCode = 1;
  }
});
