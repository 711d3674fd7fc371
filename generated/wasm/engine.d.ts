/* tslint:disable */
/* eslint-disable */

/**
 * A limiter on the embedded store. The keys and the response of a call are in the scratch memory.
 */
export class WasmMemoryLimiter {
    private constructor();
    free(): void;
    [Symbol.dispose](): void;
    /**
     * Frees the prefix for another policy.
     */
    close(): void;
    /**
     * Executes an operation, by the numbers of `numbersOf` in `ts/backends/operation.ts`: `count` of them
     * are in the scratch memory.
     */
    execute(code: number, count: number, epoch_ms: number): void;
    /**
     * Whether a take has a single limit without a name, and so a response of ten doubles.
     */
    isSingle(): boolean;
    /**
     * Opens a limiter on the same states, with the policies in the builder, as the variant of this
     * index: see `NativeMemoryLimiter::open_variant`. If it fails, it writes the reason to the
     * scratch memory and returns nothing.
     */
    openVariant(is_single: boolean, index: number, replaces: boolean): WasmMemoryLimiter | undefined;
    /**
     * The prefix, if another limiter had it open with other numbers when this one was opened.
     */
    prefixWithOtherNumbers(): string | undefined;
    /**
     * Takes `cost` units from the first key, which is `length` bytes long.
     */
    take(length: number, cost: number, epoch_ms: number): void;
}

/**
 * A store in this instance's memory.
 */
export class WasmMemoryStore {
    free(): void;
    [Symbol.dispose](): void;
    /**
     * The number of keys that are stored separately now.
     */
    heldKeys(): number;
    /**
     * Creates a store.
     */
    constructor(max_keys: number);
    /**
     * Opens a limiter with the added policies. Its prefix is the first text in the scratch memory.
     * Returns nothing while the prefix is open with policies that differ in more than numbers; the
     * reason is then written to the scratch memory.
     */
    open(is_single: boolean): WasmMemoryLimiter | undefined;
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
 * The address of the texts' lengths.
 */
export function lengths(): number;

/**
 * The address of the arguments.
 */
export function operands(): number;

/**
 * The address of the response.
 */
export function response(): number;

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
    readonly __wbg_wasmmemorylimiter_free: (a: number, b: number) => void;
    readonly __wbg_wasmmemorystore_free: (a: number, b: number) => void;
    readonly addOverride: (a: number, b: number, c: number) => void;
    readonly addPolicy: (a: number, b: number, c: number, d: number) => void;
    readonly checkPolicy: (a: number, b: number, c: number) => number;
    readonly checkPolicySet: () => number;
    readonly lengths: () => number;
    readonly operands: () => number;
    readonly response: () => number;
    readonly setBan: (a: number, b: number) => void;
    readonly setMaxOwed: (a: number) => void;
    readonly startPolicySet: () => void;
    readonly texts: () => number;
    readonly wasmmemorylimiter_close: (a: number) => void;
    readonly wasmmemorylimiter_execute: (a: number, b: number, c: number, d: number) => void;
    readonly wasmmemorylimiter_isSingle: (a: number) => number;
    readonly wasmmemorylimiter_openVariant: (a: number, b: number, c: number, d: number) => number;
    readonly wasmmemorylimiter_prefixWithOtherNumbers: (a: number) => [number, number];
    readonly wasmmemorylimiter_take: (a: number, b: number, c: number, d: number) => void;
    readonly wasmmemorystore_heldKeys: (a: number) => number;
    readonly wasmmemorystore_new: (a: number) => number;
    readonly wasmmemorystore_open: (a: number, b: number) => number;
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
