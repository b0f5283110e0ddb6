// SPDX-License-Identifier: MIT
//! Which clients must go, and when.

use super::*;

fn ended(client: &Client) -> bool {
    *client.orders().borrow() == Order::End
}

fn enter(clients: &Clients) -> Arc<Client> {
    clients.enter().unwrap()
}

/// A client that waits for its next request.
fn idle(clients: &Clients) -> Arc<Client> {
    let client = enter(clients);
    client.asked();
    client.answers(1, false);
    client.made();
    client.flushed();
    client
}

/// A client that is sent an answer of so many bytes.
fn answered(clients: &Clients, bytes: u64) -> Arc<Client> {
    let client = enter(clients);
    client.asked();
    client.answers(bytes, false);
    client
}

fn later(time: Duration) -> Instant {
    Instant::now() + time + Duration::from_secs(1)
}

#[test]
fn a_new_client_gets_the_place_of_an_idle_one() {
    let clients = Clients::new(3);
    let head = enter(&clients);
    let (first, second) = (idle(&clients), idle(&clients));
    enter(&clients);
    assert!(ended(&first) && !ended(&second) && !ended(&head));
    enter(&clients).asked();
    assert!(ended(&second) && !ended(&head));
    // One that has not asked yet goes before one that is answered.
    enter(&clients).asked();
    assert!(ended(&head));
    enter(&clients).asked();
    assert!(clients.enter().is_none());
}

#[test]
fn a_place_is_free_when_its_client_has_gone() {
    let clients = Clients::new(1);
    let client = answered(&clients, 1);
    assert!(clients.enter().is_none() && !clients.is_empty());
    clients.leave(&client);
    assert!(clients.is_empty());
    enter(&clients);
}

#[test]
fn each_phase_has_its_time() {
    let clients = Clients::new(9);
    let (head, idle, close) = (enter(&clients), idle(&clients), enter(&clients));
    close.closes();
    assert!(clients.sweep(Instant::now()).is_empty());
    assert!(!ended(&head) && !ended(&idle) && !ended(&close));
    clients.sweep(later(LINGER_TIME));
    assert!(!ended(&head) && !ended(&idle) && ended(&close));
    clients.sweep(later(HEAD_TIME));
    assert!(ended(&head) && !ended(&idle));
    clients.sweep(later(IDLE_TIME));
    assert!(ended(&idle));
}

/// A client that sends a head byte by byte does not get more time by that.
#[test]
fn a_head_has_one_time_from_its_first_byte() {
    let clients = Clients::new(9);
    let client = idle(&clients);
    client.received();
    let now = Instant::now();
    std::thread::sleep(Duration::from_millis(5));
    client.received();
    clients.sweep(now + HEAD_TIME + Duration::from_millis(1));
    assert!(ended(&client));
}

#[test]
fn a_slow_client_is_cut_off() {
    let clients = Clients::new(9);
    let (stalled, slow, waits) = (
        answered(&clients, 1),
        answered(&clients, 1),
        enter(&clients),
    );
    waits.asked();
    stalled.blocked();
    slow.blocked();
    slow.took();
    assert_eq!(clients.sweep(later(STALL_TIME)).len(), 1);
    assert!(ended(&stalled) && !ended(&slow));
    clients.leave(&stalled);
    assert_eq!(clients.sweep(later(SEND_TIME)).len(), 1);
    // The answer of the third one is still being made.
    assert!(ended(&slow) && !ended(&waits));
}

/// The connection is flushed whenever a part of an answer is sent.
#[test]
fn an_answer_goes_on_until_all_of_it_is_made() {
    let clients = Clients::new(1);
    let client = answered(&clients, 9);
    client.flushed();
    assert!(client.is_answered() && clients.enter().is_none());
    client.made();
    client.flushed();
    assert!(!client.is_answered());
}

#[test]
fn events_go_on_while_they_are_taken() {
    let clients = Clients::new(9);
    let page = enter(&clients);
    page.asked();
    page.answers(0, true);
    assert!(clients.sweep(later(10 * SEND_TIME)).is_empty() && !ended(&page));
    page.blocked();
    assert_eq!(clients.sweep(later(STALL_TIME)).len(), 1);
    assert!(ended(&page));
}

#[test]
fn the_oldest_answers_go_when_all_take_too_much_memory() {
    let clients = Clients::new(9);
    let first = answered(&clients, ANSWER_BYTES / 2);
    let second = answered(&clients, ANSWER_BYTES / 2);
    assert!(!clients.bound_answers(&second));
    let third = answered(&clients, 1);
    assert!(clients.bound_answers(&third));
    assert!(ended(&first) && !ended(&second) && !ended(&third));
    clients.leave(&first);
    // One alone may have more.
    let large = answered(&clients, 2 * ANSWER_BYTES);
    assert!(clients.bound_answers(&large));
    assert!(ended(&second) && ended(&third) && !ended(&large));
    // What is in the buffers of the connection takes no more memory than these.
    large.made();
    let last = answered(&clients, ANSWER_BYTES);
    clients.leave(&second);
    clients.leave(&third);
    assert!(!clients.bound_answers(&last) && !ended(&large));
}

#[test]
fn answers_are_finished_at_the_end() {
    let clients = Clients::new(9);
    let (head, idle, answered) = (enter(&clients), idle(&clients), answered(&clients, 1));
    let page = enter(&clients);
    page.asked();
    page.answers(0, true);
    clients.stop();
    assert!(ended(&head) && ended(&idle) && ended(&page));
    assert_eq!(*answered.orders().borrow(), Order::Finish);
}
