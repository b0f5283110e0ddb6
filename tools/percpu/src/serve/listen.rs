// SPDX-License-Identifier: MIT
//! Where clients are waited for.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use listenfd::ListenFd;

use crate::failure::{Exit, Failure};

/// Where to listen if nothing else is said.
const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9180);

/// The sockets that systemd has passed, and those of the addresses. If there are none of both: that
/// of the default address.
pub fn sockets(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, Failure> {
    let mut sockets = passed()?;
    let addresses = match addresses {
        [] if sockets.is_empty() => &[DEFAULT],
        given => given,
    };
    for address in addresses {
        let socket = TcpListener::bind(address).map_err(|e| cannot_listen(*address, &e))?;
        sockets.push(socket);
    }
    Ok(sockets)
}

fn passed() -> Result<Vec<TcpListener>, Failure> {
    let mut passed = ListenFd::from_env();
    let mut sockets = Vec::new();
    for i in 0..passed.len() {
        match passed.take_tcp_listener(i) {
            Ok(socket) => sockets.extend(socket),
            Err(e) => {
                let text = format!("descriptor {} of LISTEN_FDS cannot be used: {e}", 3 + i);
                return Err(Failure::new(Exit::System, text));
            }
        }
    }
    Ok(sockets)
}

fn cannot_listen(address: SocketAddr, e: &io::Error) -> Failure {
    let text = match e.kind() {
        io::ErrorKind::AddrInUse => {
            format!("{address} is in use by another program: give another one by --listen")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("{address} is no address of this machine: give another one by --listen")
        }
        _ => format!("{address} cannot be listened to: {e}"),
    };
    Failure::new(Exit::System, text)
}

/// Whether other machines can reach an address.
pub fn is_open(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}
