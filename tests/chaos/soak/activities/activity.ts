import type { MemoryStore, RedisStore, TollgateErrorCode } from 'tollgate'
import { type CallKind, type Calls, STORE_CODES } from '../calls.js'

/** Something that the process does again and again, with a pause in between. */
export interface Activity {
  /** The mean pause, in milliseconds. */
  readonly everyMs: number
  readonly run: () => Promise<unknown>
  /** Frees what it holds, before its store is closed. */
  readonly close?: () => Promise<unknown>
}

/** A store with what activities need to use it. */
export class Bench {
  #fresh = 0

  constructor(
    /** The target's name. */
    readonly target: string,
    readonly store: MemoryStore | RedisStore,
    readonly timeoutMs: number,
    readonly calls: Calls,
    /** Returns a number below 1, by the seed. */
    readonly random: () => number,
  ) {}

  /** The rules of a kind of call that waits for `waitMs` at most, besides the store's deadline. */
  kind(name: string, waitMs = 0, codes: readonly TollgateErrorCode[] = []): CallKind {
    const own = this.target === 'memory' ? [] : STORE_CODES
    return { name, target: this.target, deadlineMs: this.timeoutMs + waitMs, codes: [...own, ...codes] }
  }

  /** The rules of a kind of call of a limiter with `onStoreFailure`, which never fails. */
  safe(name: string): CallKind {
    return { ...this.kind(name), codes: [] }
  }

  /** One of few keys, or one that is used only once. */
  key(): string {
    return this.random() < 0.5 ? `user:${this.below(20)}` : this.freshKey()
  }

  /** A key that is used only once. */
  freshKey(): string {
    return `fresh:${process.pid}:${this.#fresh++}`
  }

  /** A whole number below a bound. */
  below(bound: number): number {
    return Math.floor(this.random() * bound)
  }
}
