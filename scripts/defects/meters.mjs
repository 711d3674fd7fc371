/** Defects of costs by policy. The laws, the oracles and the twins of the engine find each. */

export default {
  'all policies decide on the cost of the first': [
    'src/policy/execute/mod.rs',
    'entries.iter_mut().for_each(|entry| entry.cost = cost.of(entry.number));',
    'entries.iter_mut().for_each(|entry| entry.cost = cost.of(0));',
  ],
  'a policy without a cost is charged a unit': [
    'src/policy/execute/mod.rs',
    'entries.iter_mut().for_each(|entry| entry.cost = cost.of(entry.number));',
    'entries.iter_mut().for_each(|entry| entry.cost = cost.of(entry.number).max(1));',
  ],
  'a hold of another number of policies is settled': [
    'src/policy/execute/holds.rs',
    '.filter(|hold| hold.units.is_like(units))?',
    '?',
  ],
  'the script charges each policy the first cost': [
    'lua/executor/executor.lua',
    'costs[index] or cost\n    if not context.is_peek then',
    'costs[1] or cost\n    if not context.is_peek then',
  ],
  'the script settles a deficit of one policy under all': [
    'lua/executor/operations.lua',
    'local own_units = units_of(units, index)\n      local fitting',
    'local own_units = type(units) == "table" and math.max(unpack(units)) or units\n      local fitting',
  ],
  'the script refunds the units of the first policy': [
    'lua/executor/refunds.lua',
    'local key, own_units = keys[index], units_of(units, index)',
    'local key, own_units = keys[index], units_of(units, 1)',
  ],
  'the fast path of the script increments windows by the cost of the last policy': [
    'lua/dispatch/multi_policy.lua',
    'local own_costs = costs_of_policy[index] or costs',
    'local own_costs = costs',
  ],
  'the fast path of the script leaves the costs of the first call to the general path': [
    'lua/dispatch/multi_policy.lua',
    'cost[index] = costs_of_policy[index][number]',
    'cost[index] = costs_of_policy[index][1]',
  ],
}
