/* tslint:disable */
/* eslint-disable */

/**
 * The states of one limiter's keys. The keys of a call lie on the desk, and so does its answer.
 */
export class Ledger {
    private constructor();
    free(): void;
    [Symbol.dispose](): void;
    /**
     * Frees the prefix for another policy.
     */
    close(): void;
    /**
     * Whether answers of takes tell of a single limit without a name, in six doubles.
     */
    isSingle(): boolean;
    /**
     * Performs an operation: by its number in `ts/backends/operation.ts`, or one that [`asked`] knows, of the question's numbers.
     */
    perform(code: number, count: number, epoch_ms: number): void;
    /**
     * Takes `cost` units from the first key, which is so many bytes long.
     */
    take(length: number, cost: number, epoch_ms: number): void;
}

/**
 * A store in this instance's memory.
 */
export class MemoryStore {
    free(): void;
    [Symbol.dispose](): void;
    /**
     * The number of keys that are held apart now.
     */
    heldKeys(): number;
    /**
     * A store of its own.
     */
    constructor(max_keys: number);
    /**
     * Opens a limiter's ledger, of the prefix that is the first text on the desk and of what has been drafted. Nothing
     * while the prefix is open with other policies: the reason is said.
     */
    open(is_single: boolean): Ledger | undefined;
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
 * Where their lengths are.
 */
export function lengths(): number;

/**
 * Where the numbers of a question are.
 */
export function question(): number;

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
    readonly __wbg_ledger_free: (a: number, b: number) => void;
    readonly __wbg_memorystore_free: (a: number, b: number) => void;
    readonly answer: () => number;
    readonly checkDraft: () => number;
    readonly checkPolicy: (a: number, b: number) => number;
    readonly draftNumbers: (a: number, b: number) => void;
    readonly draftPolicy: (a: number, b: number, c: number) => void;
    readonly ledger_close: (a: number) => void;
    readonly ledger_isSingle: (a: number) => number;
    readonly ledger_perform: (a: number, b: number, c: number, d: number) => void;
    readonly ledger_take: (a: number, b: number, c: number, d: number) => void;
    readonly lengths: () => number;
    readonly memorystore_heldKeys: (a: number) => number;
    readonly memorystore_new: (a: number) => number;
    readonly memorystore_open: (a: number, b: number) => number;
    readonly question: () => number;
    readonly startDraft: () => void;
    readonly texts: () => number;
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
