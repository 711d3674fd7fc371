//! Policies from bytes, as numbers: the engine and its WebAssembly module read the same.

use arbitrary::{Result, Unstructured};
use tollgate::calendar::{Calendar, Zone};
use tollgate::policy::Policy;
use tollgate::policy::ban::BanRule;
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};
use tollgate::redis::POLICY_KINDS;
use tollgate::time::{MAX_SAFE, MAX_TIME};

/// The number of the last kind of policies.
const LAST_KIND: u32 = POLICY_KINDS.len() as u32 - 1;

const CALENDAR_WINDOW: u32 = 5;
const CONCURRENCY: u32 = 11;
const SLIDING_LOGS: u32 = 10;

/// The microseconds of a second.
pub const SECOND: u64 = 1_000_000;

/// A policy as numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyNumbers {
    pub kind: u32,
    pub numbers: Vec<u64>,
    /// The number of its time zone.
    pub zone: u32,
    pub policy: Policy,
}

/// The policies of a limiter as numbers.
#[derive(Debug, Clone)]
pub struct SetNumbers {
    pub is_single: bool,
    pub policies: Vec<PolicyNumbers>,
    pub names: Vec<&'static str>,
    pub dimensions: Vec<usize>,
    /// The policies to which bans apply, as bits, and the numbers of the rule.
    pub ban: Option<(u32, Vec<u64>)>,
    pub set: PolicySet,
}

/// A zone by its number: some quarters of an hour from UTC, and for odd numbers an hour more in
/// every second half of a year.
#[derive(Debug)]
struct FixedZone(u32);

impl Zone for FixedZone {
    fn offset(&self, at: i64) -> i64 {
        offset(self.0, at)
    }
}

/// The seconds by which the clocks of a zone are ahead of UTC.
pub fn offset(zone: u32, at: i64) -> i64 {
    let summer = zone % 2 == 1 && at.div_euclid(182 * 86_400) % 2 == 0;
    i64::from(zone % 48) * 900 - 6 * 3_600 + if summer { 3_600 } else { 0 }
}

/// A number of units: mostly small.
pub fn units(input: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match input.int_in_range(0..=15)? {
        0..=10 => input.int_in_range(1..=20)?,
        11..=13 => input.int_in_range(1..=10_000)?,
        14 => [8_191, 8_192, 1 << 31, 1 << 32, 999_999_999, MAX_SAFE - 1, MAX_SAFE]
            [input.choose_index(7)?],
        _ => input.int_in_range(1..=MAX_SAFE)?,
    })
}

/// A length of time in microseconds: mostly seconds.
pub fn length(input: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match input.int_in_range(0..=15)? {
        0..=5 => SECOND * input.int_in_range(1..=60)?,
        6..=9 => 1_000 * input.int_in_range(1..=2_000)?,
        10..=12 => input.int_in_range(1..=100_000)?,
        13 => 86_400 * SECOND * input.int_in_range(1..=400)?,
        14 => [1, 999, 1_000, MAX_TIME - 1, MAX_TIME][input.choose_index(5)?],
        _ => input.int_in_range(1..=MAX_TIME)?,
    })
}

impl PolicyNumbers {
    fn of_numbers(kind: u32, numbers: Vec<u64>, zone: u32) -> Option<Self> {
        let calendar =
            |every| Ok(Calendar::in_zone(every, zone_name(zone), Box::new(FixedZone(zone))));
        let policy = Policy::from_numbers(kind, &numbers, calendar).ok()?;
        Some(Self { kind, numbers, zone, policy })
    }

    /// A policy of a kind. Numbers that do not fit each other give none.
    pub fn of_kind(kind: u32, input: &mut Unstructured<'_>) -> Result<Option<Self>> {
        let (mut zone, capacity) = (0, units(input)?);
        let numbers = match kind {
            0 => vec![capacity, length(input)?, units(input)?],
            1 | 3 => {
                let initial = if input.ratio(1, 2)? { capacity } else { units(input)? - 1 };
                let debt = if input.ratio(1, 2)? { 0 } else { units(input)? };
                vec![capacity, units(input)?, length(input)?, initial, debt]
            }
            2 => vec![capacity, units(input)?, length(input)?],
            4 | 9 => vec![capacity, length(input)?, u64::from(input.ratio(1, 4)?)],
            CALENDAR_WINDOW => {
                zone = input.int_in_range(0..=47)?;
                let parts = [0, 1, 2, 3, 60 * SECOND, 900 * SECOND, 7_200 * SECOND, SECOND];
                vec![capacity, parts[input.choose_index(parts.len())?]]
            }
            7 | 8 => vec![capacity, length(input)?, input.int_in_range(1..=12)?],
            SLIDING_LOGS => {
                let mut numbers = vec![if input.ratio(1, 2)? { 1 } else { length(input)? }];
                for _ in 0..input.int_in_range(1..=3)? {
                    numbers.extend([units(input)?, length(input)?]);
                }
                numbers
            }
            _ => vec![capacity, length(input)?],
        };
        Ok(Self::of_numbers(kind, numbers, zone))
    }

    /// A policy of the same kind, calendar and number of limits with other numbers.
    pub fn renumbered(&self, input: &mut Unstructured<'_>) -> Result<Option<Self>> {
        let Some(other) = Self::of_kind(self.kind, input)? else { return Ok(None) };
        let mut numbers = other.numbers;
        match self.kind {
            CALENDAR_WINDOW => numbers.truncate(1),
            4 | 9 => numbers.truncate(2),
            SLIDING_LOGS => numbers.truncate(self.numbers.len()),
            _ => {}
        }
        numbers.extend(self.numbers.iter().skip(numbers.len()));
        Ok(Self::of_numbers(self.kind, numbers, self.zone))
    }

    pub fn is_concurrency(&self) -> bool {
        self.kind == CONCURRENCY
    }
}

/// The name of a zone: as with real zones, a calendar is known by it.
pub fn zone_name(zone: u32) -> &'static str {
    const NAMES: [&str; 48] = {
        let mut names = [""; 48];
        let letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL";
        let mut index = 0;
        while index < 48 {
            names[index] = letters.split_at(index).1.split_at(1).0;
            index += 1;
        }
        names
    };
    NAMES[zone as usize % 48]
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

impl SetNumbers {
    /// One to five policies, perhaps with bans.
    pub fn any(input: &mut Unstructured<'_>) -> Result<Option<Self>> {
        let count = if input.ratio(1, 2)? { 1 } else { input.int_in_range(1..=5)? };
        let mut policies = Vec::new();
        for _ in 0..count {
            let kind = input.int_in_range(0..=LAST_KIND)?;
            policies.extend(PolicyNumbers::of_kind(kind, input)?);
        }
        let is_single = policies.len() == 1 && input.ratio(3, 4)?;
        let names = if is_single { vec!["default"] } else { NAMES[..policies.len()].to_vec() };
        let mut dimensions = Vec::new();
        for index in 0..policies.len() {
            dimensions.push(usize::from(index > 0 && input.ratio(1, 4)?));
        }
        let ban = if input.ratio(1, 4)? {
            let target = input.int_in_range(0..=policies.len() as u64)?;
            let mut numbers =
                vec![target, input.int_in_range(1..=3)?, length(input)?, length(input)?];
            for _ in 0..input.int_in_range(1..=3)? {
                numbers.push(length(input)?);
            }
            Some((input.int_in_range(1..=(1 << policies.len().max(1)) - 1)?, numbers))
        } else {
            None
        };
        Ok(Self::of_policies(is_single, policies, names, dimensions, ban))
    }

    fn of_policies(
        is_single: bool,
        policies: Vec<PolicyNumbers>,
        names: Vec<&'static str>,
        dimensions: Vec<usize>,
        ban: Option<(u32, Vec<u64>)>,
    ) -> Option<Self> {
        let set = if is_single {
            PolicySet::single(policies[0].policy.clone())
        } else {
            let named = policies.iter().zip(&names).zip(&dimensions);
            let named = named.map(|((own, name), dimension)| NamedPolicy {
                name: (*name).into(),
                policy: own.policy.clone(),
                key_dimension: *dimension,
            });
            PolicySet::multi(named.collect()).ok()?
        };
        let set = match &ban {
            Some((policies, numbers)) => set.with_ban(BanRule::new(*policies, numbers)?),
            None => set,
        };
        Some(Self { is_single, policies, names, dimensions, ban, set })
    }

    /// The same policies with other numbers, as those of a tier.
    pub fn renumbered(&self, input: &mut Unstructured<'_>) -> Result<Option<Self>> {
        let mut policies = Vec::new();
        for own in &self.policies {
            policies.push(own.renumbered(input)?.unwrap_or_else(|| own.clone()));
        }
        let (names, dimensions) = (self.names.clone(), self.dimensions.clone());
        Ok(Self::of_policies(self.is_single, policies, names, dimensions, self.ban.clone()))
    }

    pub fn has_permits(&self) -> bool {
        self.policies.iter().any(PolicyNumbers::is_concurrency)
    }

    /// Whether calls can wait for slots.
    pub fn can_schedule(&self) -> bool {
        self.policies.iter().all(|own| own.policy.rate().is_some())
    }
}
