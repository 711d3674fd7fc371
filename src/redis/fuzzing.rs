//! The decoders of replies (feature `fuzzing`), for `tests/fuzz/` beside `src/`.

use redis::Value;

use crate::redis::cluster::{TopologyReport, node_batch, node_reply, parse_address};
use crate::redis::connection::{Address, health_of, master_of, warning_of};
use crate::redis::inspect::{KeyQuery, page_of, time};

/// Decodes a reply as the answer to each command of the package, and returns the results as text.
#[must_use]
pub fn decode_reply(reply: &Value, address: &str) -> Vec<String> {
    let node = Address::Tcp("node".into(), 6_379);
    let several = match reply {
        Value::Array(replies) => replies.clone(),
        other => vec![other.clone()],
    };
    let queries = ["gcra", "swl", "swh", "sl"]
        .into_iter()
        .filter_map(|tag| KeyQuery::new("api", format!("api:default:{tag}:{{a}}").into_bytes()));
    let mut results: Vec<_> =
        queries.map(|query| format!("{:?}", query.report(several.clone()))).collect();
    results.extend([
        format!("{:?}", health_of(several.clone())),
        format!("{:?}", warning_of(reply)),
        format!("{:?}", master_of(reply.clone(), "main")),
        format!("{:?}", TopologyReport::read(&several, &node)),
        format!("{:?}", page_of(several.clone())),
        format!("{:?}", time(reply)),
        format!("{:?}", node_reply(reply.clone(), &node)),
        format!("{:?}", node_batch::replies(reply.clone(), several.len())),
        format!("{:?}", parse_address(address, &node)),
    ]);
    results
}
