/** Units under each policy: one number for all of them; or, if policies have meters, one for each of them. */
export type Units = number | readonly number[]

/** Whether units are 0 under all policies. */
export function isNone(units: Units): boolean {
  return typeof units === 'number' ? units === 0 : units.every((own) => own === 0)
}

/** Units that a call takes: one number if that is the cost under all policies, which the engine decides faster. */
export function commonCost(units: Units): Units {
  if (typeof units === 'number') {
    return units
  }
  const first = units[0] as number
  return first > 0 && units.every((own) => own === first) ? first : units
}

/** The sum of units of one limiter. */
export function sumOf(one: Units, other: Units): Units {
  return typeof one === 'number'
    ? one + (other as number)
    : one.map((units, policy) => units + ((other as readonly number[])[policy] as number))
}

/** Whether units of one limiter are the same. */
export function areSame(one: Units, other: Units): boolean {
  return (
    one === other || (typeof one === 'object' && one.every((units, policy) => units === (other as typeof one)[policy]))
  )
}

/** The units under one policy. */
export function unitsUnder(units: Units, policy: number): number {
  return typeof units === 'number' ? units : (units[policy] as number)
}

/** Units as the engine reports those of a call that takes them: those by policy as 1. */
export function totalOf(units: Units): number {
  return typeof units === 'number' ? units : 1
}

/** The numbers of units. */
export function listOf(units: Units): readonly number[] {
  return typeof units === 'number' ? [units] : units
}
