//! Connections of a network in memory, under a paused clock: what TCP promises holds, and faults do what their names say.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn net(seed: u64) -> SimulatedNet {
    SimulatedNet::new(SeededRandom::new(seed))
}

/// A client at host 2 of a server at host 1.
async fn connected(net: &SimulatedNet) -> (Stream, Stream, super::super::Listener) {
    let bound = net.host(address(1)).listen("any:9092").expect("the port is free");
    let at = bound.address().expect("it is known");
    let listener = bound.attach().expect("nothing is needed for it");
    let client = net.host(address(2)).connect(at).await.expect("somebody listens");
    let (server, peer) = listener.accept().await.expect("a client");
    assert_eq!(peer.ip(), address(2));
    (client, server, listener)
}

async fn read(stream: &mut Stream, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

#[tokio::test(start_paused = true)]
async fn bytes_arrive_in_order_and_then_the_end() {
    let net = net(1);
    let (mut client, mut server, _listener) = connected(&net).await;
    let sent: Vec<u8> = (0..1_000_000_u32).map(|index| (index % 251) as u8).collect();
    let expected = sent.clone();
    let writing = async move {
        for some in sent.chunks(7_919) {
            client.write_all(some).await.expect("it is taken");
        }
        drop(client);
    };
    let mut received = Vec::new();
    let (_, read) = tokio::join!(writing, server.read_to_end(&mut received));
    assert_eq!(read.expect("it ends in order"), expected.len());
    assert_eq!(received, expected);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_has_the_same_delays() {
    let time_of = |seed| async move {
        let net = net(seed);
        let began = Instant::now();
        let (mut client, mut server, _listener) = connected(&net).await;
        for _ in 0..100 {
            client.write_all(b"ping").await.expect("it is taken");
            read(&mut server, 4).await.expect("it comes");
        }
        began.elapsed()
    };
    let (first, again, other) = (time_of(3).await, time_of(3).await, time_of(4).await);
    // A timer of the runtime is as fine as a millisecond.
    assert!(first.abs_diff(again) <= Duration::from_millis(1));
    assert_ne!(first, other);
}

#[tokio::test(start_paused = true)]
async fn a_cut_holds_back_one_direction_until_it_is_mended() {
    let net = net(5);
    let (mut client, mut server, _listener) = connected(&net).await;
    net.cut(address(2), address(1));
    client.write_all(b"held").await.expect("it is taken");
    server.write_all(b"through").await.expect("it is taken");
    assert_eq!(read(&mut client, 7).await.expect("it comes"), b"through");
    assert!(
        timeout(HOUR, read(&mut server, 4)).await.is_err(),
        "it is held back"
    );
    let (mended, held) = tokio::join!(async { net.mend() }, read(&mut server, 4));
    let () = mended;
    assert_eq!(held.expect("it comes"), b"held");
}

#[tokio::test(start_paused = true)]
async fn a_reset_is_an_error_at_both_ends() {
    let net = net(6);
    let (mut client, mut server, _listener) = connected(&net).await;
    client.write_all(b"lost").await.expect("it is taken");
    assert_eq!(net.reset(address(1), address(2)), 1);
    for stream in [&mut client, &mut server] {
        let error = read(stream, 1).await.expect_err("it is reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
    assert_eq!(net.reset(address(1), address(2)), 0, "it is over");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_vanished_is_noticed_when_it_is_back() {
    let net = net(7);
    let (mut client, server, listener) = connected(&net).await;
    net.vanish(address(1));
    drop((server, listener));
    assert!(timeout(HOUR, read(&mut client, 1)).await.is_err(), "nobody tells");
    client.write_all(b"into nothing").await.expect("nobody tells");
    let back = net
        .host(address(1))
        .listen("any:9092")
        .expect("the port is free again");
    let error = client.write_all(b"anew").await.expect_err("the host tells");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    drop(back);
}

#[tokio::test(start_paused = true)]
async fn clients_are_refused_until_they_are_let_in() {
    let net = net(9);
    let bound = net.host(address(1)).listen("any:9092").expect("the port is free");
    let at = bound.address().expect("it is bound");
    let connect = || net.host(address(2)).connect(at);
    let refused = connect().await.expect_err("nobody is let in yet");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    let listener = bound.attach().expect("nothing is needed for it");
    connect().await.expect("it is let in");
    listener.accept().await.expect("a client");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_reached_where_nobody_listens() {
    let net = net(8);
    let to = SocketAddr::new(address(1), 9092);
    let connect = || net.host(address(2)).connect(to);
    assert_eq!(
        connect().await.expect_err("nobody listens").kind(),
        io::ErrorKind::ConnectionRefused
    );
    net.cut(address(1), address(2));
    assert_eq!(
        connect().await.expect_err("no answer comes").kind(),
        io::ErrorKind::TimedOut
    );
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_reads_nothing_stops_the_writer() {
    let net = net(9);
    let (mut client, mut server, _listener) = connected(&net).await;
    let much = vec![7; 4 * HELD_BYTES_MAX];
    assert!(timeout(HOUR, client.write_all(&much)).await.is_err());
    assert_eq!(
        read(&mut server, HELD_BYTES_MAX).await.expect("it comes").len(),
        HELD_BYTES_MAX
    );
    drop(server);
    let error = client.write_all(&much).await.expect_err("nobody reads");
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}
