/* tslint:disable */
/* eslint-disable */

/**
 * A flush. JavaScript sends its unanswered script calls and passes the replies back.
 */
export class WasmFlush {
    free(): void;
    [Symbol.dispose](): void;
    /**
     * Appends the calls of a later flush, if one script call can have them all. Neither flush has
     * been sent; this one must be [started](Self::start) again. Returns whether it did.
     */
    append(later: WasmFlush): boolean;
    /**
     * A script call's arguments.
     */
    arguments(index: number): string[];
    /**
     * The number of its calls.
     */
    callCount(): number;
    /**
     * Returns the answers to all calls, after all script calls have a result.
     * `ts/backends/redis/batching/response-decoder.ts` decodes them.
     */
    complete(): Float64Array;
    /**
     * Fails the script calls that have not run: the deadline has passed.
     */
    failUnsent(): void;
    /**
     * Whether all script calls have an answer.
     */
    isAnswered(): boolean;
    /**
     * Whether some script calls must wait before they are sent again.
     */
    isPaused(): boolean;
    /**
     * The names of a script call's keys.
     */
    keys(index: number): string[];
    /**
     * A flush without calls. If it `peeks`, its calls change nothing.
     */
    constructor(peeks: boolean);
    /**
     * Handles a client's error: its message, and the code of a failed system call. Only an error
     * that is certainly the server's own, or that nothing was sent, means that the script has not
     * run.
     */
    onError(index: number, message: string, system_code: string): void;
    /**
     * Handles the reply to a script call. If it is invalid, each of the calls is malformed.
     */
    onReply(index: number, reply: string): void;
    /**
     * The deadline has passed while a script call was in flight.
     */
    onTimeout(index: number): void;
    /**
     * Adds a peek of units by policy from the keys in the scratch buffer, which also has the `count`
     * numbers of `numbersOf` in `ts/backends/operation.ts`. Returns 0 or a failure's code.
     */
    pushMeteredPeek(limiter: WasmRedisLimiter, tag: string | null | undefined, count: number): number;
    /**
     * Adds a peek of `cost` units from the keys in the scratch buffer. Returns 0 or a failure's
     * code.
     */
    pushPeek(limiter: WasmRedisLimiter, tag: string | null | undefined, cost: number): number;
    /**
     * Adds the enqueued calls of a limiter.
     */
    push(limiter: WasmRedisLimiter): void;
    /**
     * Ends an attempt, and prepares script calls of one key each in the place of those that the
     * server refused because their keys are in several slots. Returns whether there were any.
     */
    retryCrossSlot(): boolean;
    /**
     * Ends an attempt, and prepares script calls that retry stale calls. Returns the server's time
     * in epoch microseconds, or -1 if there is nothing to retry.
     */
    retryStale(): number;
    /**
     * Whether a script call must be sent as the script's source, not as its digest.
     */
    sendsSource(index: number): boolean;
    /**
     * Builds the script calls for the server's estimated time, in epoch microseconds.
     */
    start(epoch_us: number, has_one_key_per_script: boolean): void;
    /**
     * The texts of failures.
     */
    texts(): string[];
    /**
     * The indexes of the script calls that have no answer.
     */
    unanswered(): Uint32Array;
}

/**
 * One limiter over Redis. It enqueues calls until a flush sends them.
 */
export class WasmRedisLimiter {
    private constructor();
    free(): void;
    [Symbol.dispose](): void;
    /**
     * Releases the prefix for other policies. No call of this limiter may be pending.
     */
    close(): void;
    /**
     * Enqueues a take of `cost` units from the first key in the scratch buffer, which has `length`
     * bytes. Returns 0 or a failure's code.
     */
    enqueueTake(length: number, cost: number): number;
    /**
     * Enqueues an operation on the keys in the scratch buffer, which also has the `count` numbers of
     * `numbersOf` in `ts/backends/operation.ts`. Returns 0 or a failure's code.
     */
    enqueue(tag: string | null | undefined, code: number, count: number): number;
    /**
     * Opens a limiter on the same keys and the same queue, with the policies in the builder, as the
     * variant of this index: see `NativeRedisLimiter::open_variant`. If it fails, it writes the
     * reason to the scratch buffer and returns nothing.
     */
    openVariant(is_single: boolean, index: number, replaces: boolean): WasmRedisLimiter | undefined;
}

/**
 * The open prefixes of a store.
 */
export class WasmRedisStore {
    free(): void;
    [Symbol.dispose](): void;
    /**
     * A store without limiters.
     */
    constructor();
    /**
     * Opens a limiter. The scratch buffer has its prefix as its first text; the builder has its
     * policies. If the policies are invalid, or the prefix is open with other policies, this
     * writes the reason to the buffer and returns nothing.
     */
    open(is_single: boolean): WasmRedisLimiter | undefined;
}

/**
 * Adds an override for the next policy: the policy in the scratch memory, or none.
 */
export function addOverride(kind: number, count: number, zone: number): void;

/**
 * Adds the policy in the scratch memory. Its name is the first text there. JavaScript has checked
 * the numbers.
 */
export function addPolicy(kind: number, count: number, zone: number, key_dimension: number): void;

/**
 * Whether the policy in the scratch memory is valid: see [`read_policy`]. If not, the reason is
 * written there.
 */
export function checkPolicy(kind: number, count: number, zone: number): boolean;

/**
 * Takes the added policies, and returns whether they can decide together. If not, the reason is
 * written to the scratch memory.
 */
export function checkPolicySet(): boolean;

/**
 * Draws the secret of the hash functions. Call it before the first call is enqueued.
 */
export function drawSeed(): void;

/**
 * The address of the texts' lengths.
 */
export function lengths(): number;

/**
 * The address of the arguments.
 */
export function operands(): number;

/**
 * The name of the key that stores the policies of a prefix.
 */
export function policiesName(prefix: string): string;

/**
 * The source of the script that registers the policies of a prefix, for EVAL. Its key is
 * [`policies_name`].
 */
export function policiesSource(): string;

/**
 * The address of the response.
 */
export function response(): number;

/**
 * The script's digest, for EVALSHA.
 */
export function scriptDigest(): string;

/**
 * The source of the script that decides calls, for EVAL.
 */
export function scriptSource(): string;

/**
 * Sets the rule for bans: `count` numbers in the scratch memory, and a bit for each policy to which
 * it applies. JavaScript has checked the numbers.
 */
export function setBan(policies: number, count: number): void;

/**
 * Sets the most units that may be owed, by policy: `count` numbers in the scratch memory, negative for
 * the default.
 */
export function setMaxOwed(count: number): void;

/**
 * Starts a new list of policies.
 */
export function startPolicySet(): void;

/**
 * The address of the text buffers: eight of 1024 bytes.
 */
export function texts(): number;

export type InitInput = RequestInfo | URL | Response | BufferSource | WebAssembly.Module;

export interface InitOutput {
    readonly memory: WebAssembly.Memory;
    readonly __wbg_wasmflush_free: (a: number, b: number) => void;
    readonly __wbg_wasmredislimiter_free: (a: number, b: number) => void;
    readonly __wbg_wasmredisstore_free: (a: number, b: number) => void;
    readonly addOverride: (a: number, b: number, c: number) => void;
    readonly addPolicy: (a: number, b: number, c: number, d: number) => void;
    readonly checkPolicy: (a: number, b: number, c: number) => number;
    readonly checkPolicySet: () => number;
    readonly drawSeed: () => void;
    readonly lengths: () => number;
    readonly operands: () => number;
    readonly policiesName: (a: number, b: number) => [number, number];
    readonly policiesSource: () => [number, number];
    readonly response: () => number;
    readonly scriptDigest: () => [number, number];
    readonly scriptSource: () => [number, number];
    readonly setBan: (a: number, b: number) => void;
    readonly setMaxOwed: (a: number) => void;
    readonly startPolicySet: () => void;
    readonly texts: () => number;
    readonly wasmflush_append: (a: number, b: number) => number;
    readonly wasmflush_arguments: (a: number, b: number) => [number, number];
    readonly wasmflush_callCount: (a: number) => number;
    readonly wasmflush_complete: (a: number) => [number, number];
    readonly wasmflush_failUnsent: (a: number) => void;
    readonly wasmflush_isAnswered: (a: number) => number;
    readonly wasmflush_isPaused: (a: number) => number;
    readonly wasmflush_keys: (a: number, b: number) => [number, number];
    readonly wasmflush_new: (a: number) => number;
    readonly wasmflush_onError: (a: number, b: number, c: number, d: number, e: number, f: number) => void;
    readonly wasmflush_onReply: (a: number, b: number, c: number, d: number) => void;
    readonly wasmflush_onTimeout: (a: number, b: number) => void;
    readonly wasmflush_push: (a: number, b: number) => void;
    readonly wasmflush_pushMeteredPeek: (a: number, b: number, c: number, d: number, e: number) => number;
    readonly wasmflush_pushPeek: (a: number, b: number, c: number, d: number, e: number) => number;
    readonly wasmflush_retryCrossSlot: (a: number) => number;
    readonly wasmflush_retryStale: (a: number) => number;
    readonly wasmflush_sendsSource: (a: number, b: number) => number;
    readonly wasmflush_start: (a: number, b: number, c: number) => void;
    readonly wasmflush_texts: (a: number) => [number, number];
    readonly wasmflush_unanswered: (a: number) => [number, number];
    readonly wasmredislimiter_close: (a: number) => void;
    readonly wasmredislimiter_enqueue: (a: number, b: number, c: number, d: number, e: number) => number;
    readonly wasmredislimiter_enqueueTake: (a: number, b: number, c: number) => number;
    readonly wasmredislimiter_openVariant: (a: number, b: number, c: number, d: number) => number;
    readonly wasmredisstore_new: () => number;
    readonly wasmredisstore_open: (a: number, b: number) => number;
    readonly __wbindgen_malloc: (a: number, b: number) => number;
    readonly __wbindgen_realloc: (a: number, b: number, c: number, d: number) => number;
    readonly __wbindgen_free: (a: number, b: number, c: number) => void;
}

export type SyncInitInput = BufferSource | WebAssembly.Module;

/**
 * Instantiates the given `module`, which can either be bytes or
 * a precompiled `WebAssembly.Module`.
 *
 * @param {{ module: SyncInitInput }} module - Passing `SyncInitInput` directly is deprecated.
 *
 * @returns {InitOutput}
 */
export function initSync(module: { module: SyncInitInput } | SyncInitInput): InitOutput;

/**
 * If `module_or_path` is {RequestInfo} or {URL}, makes a request and
 * for everything else, calls `WebAssembly.instantiate` directly.
 *
 * @param {{ module_or_path: InitInput | Promise<InitInput> }} module_or_path - Passing `InitInput` directly is deprecated.
 *
 * @returns {Promise<InitOutput>}
 */
export default function __wbg_init (module_or_path: { module_or_path: InitInput | Promise<InitInput> } | InitInput | Promise<InitInput>): Promise<InitOutput>;

export declare function setHost(host: { randomBits(): number; offsetAt(zone: number, epochSeconds: number): number }): void
