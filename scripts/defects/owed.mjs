/** Defects of owed units. The laws of their payment and the twins of the engine find each. */

export default {
  'idle time pays one period too many': [
    'src/policy/owed.rs',
    '((now - self.at) / self.period.max(1)).saturating_sub(1)',
    '((now - self.at) / self.period.max(1))',
  ],
  'nothing bounds what is owed': [
    'src/policy/owed.rs',
    'units.min(limit.max.saturating_sub(self.units))',
    'units.min(limit.max)',
  ],
  'the retry time of a call ignores the owed units': [
    'src/policy/owed.rs',
    'self.units.saturating_add(cost.max(least))',
    'cost.max(least)',
  ],
  'what fits is owed, too': [
    'src/policy/execute/owed.rs',
    'metadata.owed.add(units - fitting, limit, now)',
    'metadata.owed.add(units, limit, now)',
  ],
  'the script pays nothing': [
    'lua/executor/owed.lua',
    'local paid = charge_fitting(executor, key, metadata.owed)',
    'local paid = 0',
  ],
  'the script refunds the surplus of a late settlement': [
    'lua/executor/operations.lua',
    'elseif not is_late then',
    'else',
  ],
}
