//! How long a request and its answer take over loopback TCP, with nothing done between them.
//!
//! Requests have the sizes that appends have, answers the size of an acknowledgement. Both sides block, as most clients do.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Instant;

use super::{FloorTimes, samples_of, times};
use crate::latency::LatencyRecorder;

/// Bytes of requests.
const SIZES: [usize; 4] = [100, 4 << 10, 64 << 10, 1 << 20];
const ANSWER_BYTES: usize = 64;
/// Round trips before those that are timed, so that both threads are awake and the buffers are there.
const WARM_UP: u32 = 100;

/// Measures round trips of all sizes.
pub(super) fn measure(samples: u32, rows: &mut Vec<FloorTimes>) -> anyhow::Result<()> {
    for size in SIZES {
        // Round trips are short beside flushes: ten times as many cost nothing and steady the tail.
        let samples = samples_of(samples.saturating_mul(10), size);
        rows.push(times("loopback", size, &round_trips(size, samples)?));
    }
    Ok(())
}

/// Times round trips of requests of one size.
pub(super) fn round_trips(size: usize, samples: u32) -> io::Result<LatencyRecorder> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut stream = TcpStream::connect(listener.local_addr()?)?;
    stream.set_nodelay(true)?;
    let (accepted, _) = listener.accept()?;
    std::thread::scope(|scope| {
        let answering = scope.spawn(move || answer(accepted, size));
        let mut recorder = LatencyRecorder::new();
        let request = vec![1; size];
        let mut response = [0; ANSWER_BYTES];
        for index in 0..WARM_UP + samples {
            let before = Instant::now();
            stream.write_all(&request)?;
            stream.read_exact(&mut response)?;
            if index >= WARM_UP {
                recorder.record(before.elapsed());
            }
        }
        drop(stream);
        answering.join().expect("a panic is a bug here")?;
        Ok(recorder)
    })
}

/// Answers requests until the stream ends.
fn answer(mut stream: TcpStream, size: usize) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = vec![0; size];
    loop {
        match stream.read_exact(&mut request) {
            Ok(()) => stream.write_all(&[1; ANSWER_BYTES])?,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
