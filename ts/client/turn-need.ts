/** The units of a turn; under policies with meters those of each meter, in their order. */
export type TurnCost = number | { readonly [meter: string]: number }

export interface TurnNeed {
  readonly cost: TurnCost
  readonly tier: string | undefined
}

/** The same text for equal needs of one limiter. */
export function nameOfNeed({ cost, tier }: TurnNeed): string {
  return `${typeof cost === 'number' ? cost : Object.values(cost).join()} ${tier ?? ''}`
}

/** The options of a limiter's methods for such a turn. */
export function turnOptions({ cost, tier }: TurnNeed): { cost: TurnCost; tier?: string } {
  return tier === undefined ? { cost } : { cost, tier }
}
