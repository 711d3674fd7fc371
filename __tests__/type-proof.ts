/** Proofs about types, which the compiler checks (`npm run check:types`). */

export type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

/** Only `true` compiles. */
export const holds = <T extends true>(_proof?: T) => expect(true).toBe(true)
