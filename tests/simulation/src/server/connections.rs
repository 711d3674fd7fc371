//! Connections to servers and sentinels.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, sleep_until};
use tollgate_simulated_redis::resp::{Reply, next_command};

use super::commands::Session;
use super::{FIRST_NODE, FIRST_SENTINEL, SharedWorld};
use crate::locked;
use crate::network::{self, Socket};

/// The index of the node of links to sentinels.
const NO_NODE: usize = usize::MAX;

/// Connects a client to the server at a port.
pub(crate) async fn connect(world: SharedWorld, port: u16) -> io::Result<Socket> {
    let (delays, mut random) = {
        let mut world = locked(&world);
        (world.delays, world.random.fork())
    };
    sleep(delays.min + delays.jitter.mul_f64(random.f64())).await;
    if port >= FIRST_SENTINEL {
        let index = usize::from(port - FIRST_SENTINEL);
        if !locked(&world).sentinels[index].is_alive {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (socket, server, control) = network::link(delays, random);
        locked(&world).links.push((NO_NODE, control));
        tokio::spawn(serve_sentinel(world, index, server));
        return Ok(socket);
    }
    let node = locked(&world).address_target.unwrap_or(usize::from(port - FIRST_NODE));
    loop {
        let until = locked(&world).nodes[node].unreachable_until;
        if until <= Instant::now() {
            break;
        }
        sleep_until(until).await;
    }
    let mut shared = locked(&world);
    if !shared.nodes[node].is_alive {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let (socket, server, control) = network::link(delays, random);
    shared.links.retain(|(_, link)| link.is_open());
    shared.links.push((node, control));
    let generation = shared.nodes[node].generation;
    drop(shared);
    tokio::spawn(serve(world, node, generation, server));
    Ok(socket)
}

/// Serves one connection until it ends.
async fn serve(world: SharedWorld, node: usize, generation: u32, mut socket: Socket) {
    let (mut buffer, mut session) = (Vec::new(), Session::default());
    loop {
        while let Some(command) = next_command(&mut buffer) {
            locked(&world).commands += 1;
            let is_write = matches!(&command[0][..], b"EVAL" | b"EVALSHA" | b"EXEC");
            loop {
                let until = {
                    let node = &locked(&world).nodes[node];
                    let paused_until = node.writes_paused_until;
                    if is_write { node.frozen_until.max(paused_until) } else { node.frozen_until }
                };
                if until <= Instant::now() {
                    break;
                }
                sleep_until(until).await;
            }
            let mut out = Vec::new();
            {
                let mut world = locked(&world);
                if world.nodes[node].generation != generation {
                    return;
                }
                world.execute(node, &mut session, command).write(&mut out);
            }
            if socket.write_all(&out).await.is_err() {
                return;
            }
        }
        match socket.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

async fn serve_sentinel(world: SharedWorld, index: usize, mut socket: Socket) {
    let mut buffer = Vec::new();
    loop {
        while let Some(words) = next_command(&mut buffer) {
            let reply = {
                let mut world = locked(&world);
                world.commands += 1;
                let sentinel = &world.sentinels[index];
                if !sentinel.is_alive {
                    return;
                }
                match &words[0][..] {
                    b"SENTINEL" => {
                        let port = usize::from(FIRST_NODE) + sentinel.master;
                        Reply::Array(vec![Reply::text("node"), Reply::text(port.to_string())])
                    }
                    _ => Reply::Status("OK"),
                }
            };
            let mut out = Vec::new();
            reply.write(&mut out);
            if socket.write_all(&out).await.is_err() {
                return;
            }
        }
        match socket.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}
