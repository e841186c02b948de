//! Packets over UDP, each as long on the wire as TCP's with timestamps: 24 octets stand where its header would.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

use ccp_tcp::{Ack, Config, Data, Receiver, SackRange};

use crate::network::{Network, Packet};
use crate::wait;

const MOST_BYTES: usize = 2048;
const SEQ_BYTES: usize = 6;

const ACK: u8 = 1;
const RETRANSMISSION: u8 = 2;
const PUSH: u8 = 4;
const FIN: u8 = 8;

/// Writes a packet: its kind and flags, its flow, sequence numbers of 6 octets, and times.
fn written(packet: &Packet) -> Vec<u8> {
    match packet {
        Packet::Data(flow, data) => {
            let flag = |is: bool, flag: u8| if is { flag } else { 0 };
            let flags =
                flag(data.is_retransmission, RETRANSMISSION) | flag(data.push, PUSH) | flag(data.fin, FIN);
            let mut octets = vec![flags, *flow as u8];
            octets.extend(&data.seq.to_le_bytes()[..SEQ_BYTES]);
            octets.extend(data.sent_ns.to_le_bytes());
            octets.extend(data.echo_ns.to_le_bytes());
            octets.resize(octets.len() + data.len_bytes as usize, 0);
            octets
        }
        Packet::Ack(flow, ack) => {
            let mut octets = vec![ACK, *flow as u8];
            octets.extend(&ack.ack.to_le_bytes()[..SEQ_BYTES]);
            octets.extend(ack.sent_ns.to_le_bytes());
            octets.extend(ack.echo_ns.to_le_bytes());
            octets.extend(&ack.window_bytes.to_le_bytes()[..SEQ_BYTES]);
            for range in ack.sacks.iter() {
                octets.extend(&range.start.to_le_bytes()[..SEQ_BYTES]);
                octets.extend(&range.end.to_le_bytes()[..SEQ_BYTES]);
            }
            octets
        }
    }
}

/// Reads one; None if it is too short to be one.
fn read(octets: &[u8]) -> Option<Packet> {
    let mut rest = octets;
    let mut number = |n: usize| {
        let (head, tail) = rest.split_at_checked(n)?;
        rest = tail;
        let mut whole = [0; 8];
        whole[..n].copy_from_slice(head);
        Some(u64::from_le_bytes(whole))
    };
    let (flags, flow) = (number(1)? as u8, number(1)? as usize);
    let (seq, sent_ns, echo_ns) = (number(SEQ_BYTES)?, number(8)?, number(8)?);
    if flags & ACK == 0 {
        return Some(Packet::Data(
            flow,
            Data {
                seq,
                len_bytes: rest.len() as u32,
                sent_ns,
                echo_ns,
                is_retransmission: flags & RETRANSMISSION != 0,
                ect: false,
                cwr: false,
                push: flags & PUSH != 0,
                fin: flags & FIN != 0,
            },
        ));
    }
    let mut ack = Ack { ack: seq, sent_ns, echo_ns, window_bytes: number(SEQ_BYTES)?, ..Ack::default() };
    while let (Some(start), Some(end)) = (number(SEQ_BYTES), number(SEQ_BYTES)) {
        ack.sacks.push(SackRange { start, end });
    }
    Some(Packet::Ack(flow, ack))
}

/// A sender's socket.
pub struct Udp(UdpSocket);

impl Udp {
    /// Opens one, for packets to an address and back.
    pub fn open(to: &str) -> io::Result<Self> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(to)?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }
}

impl Network for Udp {
    fn send(&mut self, _now_ns: u64, packet: Packet) {
        let _ = self.0.send(&written(&packet)); // what has no room is lost, as on any link
    }

    fn arrived(&mut self, now_ns: u64) -> Option<(u64, Packet)> {
        let mut octets = [0; MOST_BYTES];
        let n = self.0.recv(&mut octets).ok()?;
        Some((now_ns, read(&octets[..n])?))
    }

    fn next_ns(&self) -> Option<u64> {
        None
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.0.as_raw_fd())
    }
}

/// Receives one flow's data there, and answers, until it is killed.
pub fn receive(at: &str) -> io::Result<()> {
    let socket = UdpSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    println!("ready");
    let mut receiver = Receiver::new(&Config::default());
    let mut sender = None;
    let start = Instant::now();
    let mut octets = [0; MOST_BYTES];
    loop {
        let now_ns = start.elapsed().as_nanos() as u64;
        let mut acks = Vec::new();
        while let Ok((n, from)) = socket.recv_from(&mut octets) {
            sender = Some(from);
            if let Some(Packet::Data(_, data)) = read(&octets[..n]) {
                acks.extend(receiver.on_data(now_ns, &data, false));
            }
        }
        if receiver.due_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            acks.extend(receiver.on_timer(now_ns));
        }
        if let Some(to) = sender {
            for ack in acks {
                let _ = socket.send_to(&written(&Packet::Ack(0, ack)), to); // lost, as on any link
            }
        }
        let elapsed_ns = start.elapsed().as_nanos() as u64;
        wait(&[socket.as_raw_fd()], receiver.due_ns().map(|at_ns| at_ns.saturating_sub(elapsed_ns)));
    }
}
