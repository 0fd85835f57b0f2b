//! A fault at each byte of HTTP messages on real sockets, heads included.

mod client;
mod server;

/// What happens to a message at a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The writer ends the connection in order.
    Cut,
    /// The writer resets the connection.
    Reset,
    /// Nothing more comes.
    Stall,
    /// One bit is another.
    Corrupt,
}

const FAULTS: [Fault; 4] = [Fault::Cut, Fault::Reset, Fault::Stall, Fault::Corrupt];

/// Returns the bytes at which a message has a fault: each of its head, where `step` is no longer, and those of its body.
fn places(message: &[u8], step: usize) -> impl Iterator<Item = usize> + use<> {
    let head = message.windows(4).position(|end| end == b"\r\n\r\n");
    let head = head.expect("a head") + 4;
    let in_head = (0..head).step_by(step.min(5));
    in_head.chain((head..message.len()).step_by(step))
}

fn with_changed_bit(message: &[u8], at: usize) -> Vec<u8> {
    let mut changed = message.to_vec();
    changed[at] ^= 1 << (at % 8);
    changed
}
