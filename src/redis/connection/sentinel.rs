//! Redis Sentinel: servers that know which one is the master.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::Value;
use tokio::time::{sleep, timeout};

use crate::redis::connection::connector::{Access, Address, Opened};

/// How often it is looked whether the master is another.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Once one of the sentinels has answered, so long the others are waited for.
const MORE_WITHIN: Duration = Duration::from_millis(50);

/// The sentinels of a master.
#[derive(Debug)]
pub struct Sentinels {
    nodes: Vec<Address>,
    master: String,
    access: Access,
    links: HashMap<Address, Link>,
}

struct Link(Opened);

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Link")
    }
}

impl Sentinels {
    /// Sentinels at these addresses, which watch a master of this name.
    #[must_use]
    pub fn new(nodes: Vec<Address>, master: String, access: Access) -> Self {
        Self { nodes, master, access, links: HashMap::new() }
    }

    /// Where the master is: what most of those say who answer, then what others say.
    pub(crate) async fn masters(&mut self) -> Result<Vec<Address>, Arc<str>> {
        let (mut answers, mut failures) = (Vec::<(Address, usize)>::new(), Vec::new());
        let asked = self.nodes.iter().map(|node| {
            let link = self.links.remove(node).map(|Link(link)| link);
            ask(&self.access, node, link, &self.master)
        });
        let mut asked: FuturesUnordered<_> = asked.collect();
        loop {
            let next = if answers.is_empty() {
                asked.next().await
            } else {
                timeout(MORE_WITHIN, asked.next()).await.unwrap_or(None)
            };
            let Some((node, found)) = next else { break };
            match found {
                Ok((link, address)) => {
                    self.links.insert(node.clone(), Link(link));
                    match answers.iter_mut().find(|(other, _)| *other == address) {
                        Some((_, votes)) => *votes += 1,
                        None => answers.push((address, 1)),
                    }
                }
                Err(why) => failures.push(why),
            }
        }
        if answers.is_empty() {
            let why = failures.pop().unwrap_or_else(|| "there are no sentinels".into());
            return Err(format!("no sentinel knows the master: {why}").into());
        }
        answers.sort_by_key(|(_, votes)| std::cmp::Reverse(*votes));
        Ok(answers.into_iter().map(|(address, _)| address).collect())
    }

    /// Waits until the master is another.
    pub(crate) async fn moved(&mut self, from: &Address) {
        loop {
            sleep(LOOK_EVERY).await;
            if let Ok(masters) = self.masters().await
                && masters.first() != Some(from)
            {
                return;
            }
        }
    }
}

/// Asks one sentinel, over the link that there is or a new one.
async fn ask<'n>(
    access: &Access,
    node: &'n Address,
    link: Option<Opened>,
    master: &str,
) -> (&'n Address, Result<(Opened, Address), Arc<str>>) {
    if let Some(link) = link
        && let Ok(found) = timeout(access.timeout, told(link, master)).await
        && let Ok(found) = found
    {
        return (node, Ok(found));
    }
    let found = async {
        let link = access.connect(node).await?;
        let late = |_| Arc::from(format!("{node} did not answer in time"));
        timeout(access.timeout, told(link, master)).await.map_err(late)?
    };
    (node, found.await)
}

/// What one sentinel tells.
async fn told(mut link: Opened, master: &str) -> Result<(Opened, Address), Arc<str>> {
    let mut command = redis::cmd("SENTINEL");
    command.arg("get-master-addr-by-name").arg(master);
    let reply = link
        .line
        .connection
        .send_packed_command(&command)
        .await
        .map_err(|error| error.to_string())?;
    match reply {
        Value::Array(words) => match &words[..] {
            [Value::BulkString(host), Value::BulkString(port)] => {
                let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
                let port = port.ok_or("a sentinel names no port")?;
                let host = String::from_utf8_lossy(host).into_owned();
                Ok((link, Address::Tcp(host, port)))
            }
            _ => Err("a sentinel answers otherwise than sentinels do".into()),
        },
        Value::Nil => Err(format!("the sentinels watch no master {master:?}").into()),
        Value::ServerError(error) => Err(redis::RedisError::from(error).to_string().into()),
        _ => Err("a sentinel answers otherwise than sentinels do".into()),
    }
}
