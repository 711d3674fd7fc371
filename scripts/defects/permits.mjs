/** Defects of permits that are settled. The twins and the laws of the engine find each. */

export default {
  'a settlement keeps the permit': [
    'src/policy/execute/mod.rs',
    '            permits::release(&mut entries, now, permit_of(hold));\n',
    '',
  ],
  'a settlement charges units that the permit holds': [
    'src/policy/execute/holds.rs',
    'let deficit = policies.without_permits(&actual.minus(&held));',
    'let deficit = actual.minus(&units);',
  ],
  'an extension takes further units of permits': [
    'src/policy/execute/holds.rs',
    'let taken = policies.without_permits(cost);',
    'let taken = cost.clone();',
  ],
  'a call for no units leaves a hold': [
    'src/policy/execute/permits.rs',
    'hold.filter(|_| execution.units > 0)',
    'hold',
  ],
  'the script settles a hold and keeps its permit': [
    'lua/executor/operations.lua',
    'permits.release(key, permit_of(id))',
    'permits.release(key, 0)',
  ],
  'the script renews a hold without its permit': [
    'lua/executor/operations.lua',
    'was_held = permits.renew(key, permit_of(id)) and was_held',
    'was_held = true',
  ],
  'the script charges a deficit also with a permit': [
    'lua/executor/units.lua',
    'own[index] = executor.permit_functions and 0 or units_of(units, index)',
    'own[index] = units_of(units, index)',
  ],
}
