/* tslint:disable */
/* eslint-disable */

/**
 * One limiter's keys in Redis: its calls are noted until they are sent.
 */
export class RedisLedger {
    private constructor();
    free(): void;
    [Symbol.dispose](): void;
    /**
     * Frees the prefix for another policy.
     */
    close(): void;
    /**
     * Notes a call of `cost` units on the first key on the desk, which is so many bytes long. Answers 0, or with a
     * failure's code; and so do the others.
     */
    noteTake(length: number, cost: number): number;
    /**
     * Notes an operation on the keys on the desk: by its number in `ts/backends/operation.ts`, or one that [`asked`] knows, of
     * the question's numbers.
     */
    note(tag: string | null | undefined, code: number, count: number): number;
}

/**
 * A round: JavaScript sends its jobs, one after the other, and brings what is answered.
 */
export class RedisRound {
    free(): void;
    [Symbol.dispose](): void;
    /**
     * The server's time in microseconds, if calls are to be asked again, by jobs that are then to be sent; otherwise
     * -1.
     */
    again(): number;
    /**
     * Takes the reply to the next job. What is no reply is none to each of its calls.
     */
    answer(reply: string): void;
    /**
     * A job's arguments.
     */
    arguments(job: number): string[];
    /**
     * Takes why the next job has no reply: `ts/wasm/redis/retry-method.ts` has the same numbers.
     */
    fail(kind: number, why: string): void;
    /**
     * How many jobs are to be sent.
     */
    jobCount(): number;
    /**
     * The names of a job's keys.
     */
    keys(job: number): string[];
    /**
     * A round without calls. Those of one that `peeks` change nothing.
     */
    constructor(peeks: boolean);
    /**
     * Adds a call that tells what taking `cost` units from the keys on the desk would answer. Answers 0, or with a
     * failure's code.
     */
    pushPeek(ledger: RedisLedger, tag: string | null | undefined, cost: number): number;
    /**
     * Adds what has been noted for a limiter.
     */
    push(ledger: RedisLedger): void;
    /**
     * What became of the calls, once all jobs have been answered: as `ts/backends/redis/batching/response-decoder.ts` reads it.
     */
    settle(): Float64Array;
    /**
     * Makes the jobs, around this time by the server's clock, and tells how many they are.
     */
    start(epoch_us: number): number;
    /**
     * What failures say.
     */
    texts(): string[];
}

/**
 * The prefixes of a store.
 */
export class RedisStore {
    free(): void;
    [Symbol.dispose](): void;
    /**
     * A store without limiters.
     */
    constructor();
    /**
     * Opens a limiter's keys, of the prefix that is the first text on the desk and of what has been drafted. Nothing
     * while the prefix is open with other policies: the reason is said.
     */
    open(is_single: boolean): RedisLedger | undefined;
}

/**
 * Where answers are.
 */
export function answer(): number;

/**
 * Whether what has been drafted can decide together; it is taken away. If not, the reason is said.
 */
export function checkDraft(): boolean;

/**
 * Whether the policy that lies on the desk can be counted with: see [`on_desk`]. If not, the reason is said.
 */
export function checkPolicy(kind: number, count: number): boolean;

/**
 * Adds the numbers that lie on the desk, if there are any.
 */
export function draftNumbers(kind: number, count: number): void;

/**
 * Adds the policy that lies on the desk, of the name that is the first text there. JavaScript has checked it.
 */
export function draftPolicy(kind: number, count: number, subject: number): void;

/**
 * Draws the secret of hash functions: to be called before anything is noted.
 */
export function drawSeed(): void;

/**
 * Where their lengths are.
 */
export function lengths(): number;

/**
 * The name of that key.
 */
export function policiesName(prefix: string): string;

/**
 * The script that notes by which policies the calls on a prefix are decided, for EVAL. It takes the key of
 * [`policies_name`].
 */
export function policiesSource(): string;

/**
 * Where the numbers of a question are.
 */
export function question(): number;

/**
 * Its digest, for EVALSHA.
 */
export function scriptDigest(): string;

/**
 * The script, for EVAL.
 */
export function scriptSource(): string;

/**
 * Begins anew.
 */
export function startDraft(): void;

/**
 * Where texts are: eight places of 1024 bytes.
 */
export function texts(): number;

export type InitInput = RequestInfo | URL | Response | BufferSource | WebAssembly.Module;

export interface InitOutput {
    readonly memory: WebAssembly.Memory;
    readonly __wbg_redisledger_free: (a: number, b: number) => void;
    readonly __wbg_redisround_free: (a: number, b: number) => void;
    readonly __wbg_redisstore_free: (a: number, b: number) => void;
    readonly answer: () => number;
    readonly checkDraft: () => number;
    readonly checkPolicy: (a: number, b: number) => number;
    readonly draftNumbers: (a: number, b: number) => void;
    readonly draftPolicy: (a: number, b: number, c: number) => void;
    readonly drawSeed: () => void;
    readonly lengths: () => number;
    readonly policiesName: (a: number, b: number) => [number, number];
    readonly policiesSource: () => [number, number];
    readonly question: () => number;
    readonly redisledger_close: (a: number) => void;
    readonly redisledger_note: (a: number, b: number, c: number, d: number, e: number) => number;
    readonly redisledger_noteTake: (a: number, b: number, c: number) => number;
    readonly redisround_again: (a: number) => number;
    readonly redisround_answer: (a: number, b: number, c: number) => void;
    readonly redisround_arguments: (a: number, b: number) => [number, number];
    readonly redisround_fail: (a: number, b: number, c: number, d: number) => void;
    readonly redisround_jobCount: (a: number) => number;
    readonly redisround_keys: (a: number, b: number) => [number, number];
    readonly redisround_new: (a: number) => number;
    readonly redisround_push: (a: number, b: number) => void;
    readonly redisround_pushPeek: (a: number, b: number, c: number, d: number, e: number) => number;
    readonly redisround_settle: (a: number) => [number, number];
    readonly redisround_start: (a: number, b: number) => number;
    readonly redisround_texts: (a: number) => [number, number];
    readonly redisstore_new: () => number;
    readonly redisstore_open: (a: number, b: number) => number;
    readonly scriptDigest: () => [number, number];
    readonly scriptSource: () => [number, number];
    readonly startDraft: () => void;
    readonly texts: () => number;
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
