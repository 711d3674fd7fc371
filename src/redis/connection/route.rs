//! Which server a link goes to: always the same, or whichever is the master.

use std::sync::Arc;

use tokio::time::timeout;

use super::health::{About, Pulse, Warning, pulse, warning};
use super::sentinel::Sentinels;
use crate::redis::connection::connector::{Access, Address, Opened};

/// Where links go.
#[derive(Debug)]
pub struct Route {
    access: Access,
    to: To,
}

#[derive(Debug)]
enum To {
    /// To this server.
    One(Address),
    /// To the master, which was here when it was last connected to.
    Master(Box<Sentinels>, Option<Address>),
}

/// A link that has just been made.
pub(crate) struct Connected {
    pub(crate) opened: Opened,
    pub(crate) about: Arc<About>,
    pub(crate) warning: Option<Warning>,
}

impl Route {
    /// To the server at this address.
    #[must_use]
    pub fn direct(address: Address, access: Access) -> Self {
        Self { access, to: To::One(address) }
    }

    /// To the master that the sentinels know.
    #[must_use]
    pub fn master(sentinels: Sentinels, access: Access) -> Self {
        Self { access, to: To::Master(Box::new(sentinels), None) }
    }

    /// How the server is reached.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// Where links go, or the last one did.
    pub(crate) fn last(&self) -> Option<&Address> {
        match &self.to {
            To::One(address) => Some(address),
            To::Master(_, last) => last.as_ref(),
        }
    }

    /// Whether there is no other server to go to.
    pub(crate) fn is_lone(&self) -> bool {
        matches!(self.to, To::One(_))
    }

    /// Connects to a server that answers and can decide.
    pub(crate) async fn connect(&mut self) -> Result<Connected, Arc<str>> {
        let Self { access, to } = self;
        match to {
            To::One(address) => connected(access, address, false).await,
            To::Master(sentinels, last) => {
                let mut why = "no sentinel knows the master".into();
                for address in sentinels.masters().await? {
                    let found = tokio::select! {
                        found = connected(access, &address, true) => found,
                        // It may not answer at all, and be replaced meanwhile.
                        () = sentinels.moved(&address) => Err(format!("{address} is not the master").into()),
                    };
                    match found {
                        Ok(connected) => {
                            *last = Some(address);
                            return Ok(connected);
                        }
                        Err(failed) => why = failed,
                    }
                }
                Err(why)
            }
        }
    }

    /// Waits until links should go elsewhere than the last one does.
    pub(crate) async fn moved(&mut self) {
        match &mut self.to {
            To::Master(sentinels, Some(last)) => sentinels.moved(last).await,
            _ => std::future::pending().await,
        }
    }
}

/// Connects, and sees whether the server can decide.
async fn connected(
    access: &Access,
    address: &Address,
    must_be_master: bool,
) -> Result<Connected, Arc<str>> {
    let mut opened = access.connect(address).await?;
    let seen = async {
        let version = match pulse(&mut opened.line.connection).await {
            Pulse::Well(version) => version.unwrap_or_default(),
            Pulse::Demoted if must_be_master => return Err(format!("{address} is a replica")),
            // It may become a master again: each call will tell.
            Pulse::Demoted => String::new(),
            Pulse::Unwell(why) | Pulse::Broken(why) => return Err(format!("{address}: {why}")),
        };
        Ok((version, warning(&mut opened.line.connection).await))
    };
    let late = |_| format!("{address} did not answer in time");
    let (version, warning) = timeout(access.timeout, seen).await.map_err(late)??;
    let about = Arc::new(About { address: address.to_string(), version });
    Ok(Connected { opened, about, warning })
}
