var __defProp = Object.defineProperty;
var __getOwnPropDesc = Object.getOwnPropertyDescriptor;
var __getOwnPropNames = Object.getOwnPropertyNames;
var __hasOwnProp = Object.prototype.hasOwnProperty;
var __export = (target, all) => {
  for (var name in all)
    __defProp(target, name, { get: all[name], enumerable: true });
};
var __copyProps = (to, from, except, desc) => {
  if (from && typeof from === "object" || typeof from === "function") {
    for (let key of __getOwnPropNames(from))
      if (!__hasOwnProp.call(to, key) && key !== except)
        __defProp(to, key, { get: () => from[key], enumerable: !(desc = __getOwnPropDesc(from, key)) || desc.enumerable });
  }
  return to;
};
var __toCommonJS = (mod) => __copyProps(__defProp({}, "__esModule", { value: true }), mod);

// <stdin>
var stdin_exports = {};
__export(stdin_exports, {
  WasmMemoryLimiter: () => WasmMemoryLimiter,
  WasmMemoryStore: () => WasmMemoryStore,
  addOverride: () => addOverride,
  addPolicy: () => addPolicy,
  checkPolicy: () => checkPolicy,
  checkPolicySet: () => checkPolicySet,
  initSync: () => initSync,
  lengths: () => lengths,
  operands: () => operands,
  response: () => response,
  setBan: () => setBan,
  setHost: () => setHost,
  startPolicySet: () => startPolicySet,
  texts: () => texts
});
module.exports = __toCommonJS(stdin_exports);

// target/wasm/generated/host.js
var host_exports = {};
__export(host_exports, {
  offsetAt: () => offsetAt,
  randomBits: () => randomBits,
  setHost: () => setHost
});
var host;
function setHost(given) {
  host = given;
}
var randomBits = () => host.randomBits();
var offsetAt = (zone, epochSeconds) => host.offsetAt(zone, epochSeconds);

// target/wasm/generated/engine.js
var WasmMemoryLimiter = class _WasmMemoryLimiter {
  static __wrap(ptr) {
    const obj = Object.create(_WasmMemoryLimiter.prototype);
    obj.__wbg_ptr = ptr;
    WasmMemoryLimiterFinalization.register(obj, obj.__wbg_ptr, obj);
    return obj;
  }
  __destroy_into_raw() {
    const ptr = this.__wbg_ptr;
    this.__wbg_ptr = 0;
    WasmMemoryLimiterFinalization.unregister(this);
    return ptr;
  }
  free() {
    const ptr = this.__destroy_into_raw();
    wasm.__wbg_wasmmemorylimiter_free(ptr, 0);
  }
  /**
   * Frees the prefix for another policy.
   */
  close() {
    wasm.wasmmemorylimiter_close(this.__wbg_ptr);
  }
  /**
   * Executes an operation, by the numbers of `numbersOf` in `ts/backends/operation.ts`: `count` of them
   * are in the scratch memory.
   * @param {number} code
   * @param {number} count
   * @param {number} epoch_ms
   */
  execute(code, count, epoch_ms) {
    wasm.wasmmemorylimiter_execute(this.__wbg_ptr, code, count, epoch_ms);
  }
  /**
   * Whether a take has a single limit without a name, and so a response of ten doubles.
   * @returns {boolean}
   */
  isSingle() {
    const ret = wasm.wasmmemorylimiter_isSingle(this.__wbg_ptr);
    return ret !== 0;
  }
  /**
   * Opens a limiter on the same states, with the policies in the builder, as the variant of this
   * index: see `NativeMemoryLimiter::open_variant`. If it fails, it writes the reason to the
   * scratch memory and returns nothing.
   * @param {boolean} is_single
   * @param {number} index
   * @param {boolean} replaces
   * @returns {WasmMemoryLimiter | undefined}
   */
  openVariant(is_single, index, replaces) {
    const ret = wasm.wasmmemorylimiter_openVariant(this.__wbg_ptr, is_single, index, replaces);
    return ret === 0 ? void 0 : _WasmMemoryLimiter.__wrap(ret);
  }
  /**
   * The prefix, if another limiter had it open with other numbers when this one was opened.
   * @returns {string | undefined}
   */
  prefixWithOtherNumbers() {
    const ret = wasm.wasmmemorylimiter_prefixWithOtherNumbers(this.__wbg_ptr);
    let v1;
    if (ret[0] !== 0) {
      v1 = getStringFromWasm0(ret[0], ret[1]);
      wasm.__wbindgen_free(ret[0], ret[1] * 1, 1);
    }
    return v1;
  }
  /**
   * Takes `cost` units from the first key, which is `length` bytes long.
   * @param {number} length
   * @param {number} cost
   * @param {number} epoch_ms
   */
  take(length, cost, epoch_ms) {
    wasm.wasmmemorylimiter_take(this.__wbg_ptr, length, cost, epoch_ms);
  }
};
if (Symbol.dispose) WasmMemoryLimiter.prototype[Symbol.dispose] = WasmMemoryLimiter.prototype.free;
var WasmMemoryStore = class {
  __destroy_into_raw() {
    const ptr = this.__wbg_ptr;
    this.__wbg_ptr = 0;
    WasmMemoryStoreFinalization.unregister(this);
    return ptr;
  }
  free() {
    const ptr = this.__destroy_into_raw();
    wasm.__wbg_wasmmemorystore_free(ptr, 0);
  }
  /**
   * The number of keys that are stored separately now.
   * @returns {number}
   */
  heldKeys() {
    const ret = wasm.wasmmemorystore_heldKeys(this.__wbg_ptr);
    return ret >>> 0;
  }
  /**
   * Creates a store.
   * @param {number} max_keys
   */
  constructor(max_keys) {
    const ret = wasm.wasmmemorystore_new(max_keys);
    this.__wbg_ptr = ret;
    WasmMemoryStoreFinalization.register(this, this.__wbg_ptr, this);
    return this;
  }
  /**
   * Opens a limiter with the added policies. Its prefix is the first text in the scratch memory.
   * Returns nothing while the prefix is open with policies that differ in more than numbers; the
   * reason is then written to the scratch memory.
   * @param {boolean} is_single
   * @returns {WasmMemoryLimiter | undefined}
   */
  open(is_single) {
    const ret = wasm.wasmmemorystore_open(this.__wbg_ptr, is_single);
    return ret === 0 ? void 0 : WasmMemoryLimiter.__wrap(ret);
  }
};
if (Symbol.dispose) WasmMemoryStore.prototype[Symbol.dispose] = WasmMemoryStore.prototype.free;
function addOverride(kind, count, zone) {
  wasm.addOverride(kind, count, zone);
}
function addPolicy(kind, count, zone, key_dimension) {
  wasm.addPolicy(kind, count, zone, key_dimension);
}
function checkPolicy(kind, count, zone) {
  const ret = wasm.checkPolicy(kind, count, zone);
  return ret !== 0;
}
function checkPolicySet() {
  const ret = wasm.checkPolicySet();
  return ret !== 0;
}
function lengths() {
  const ret = wasm.lengths();
  return ret >>> 0;
}
function operands() {
  const ret = wasm.operands();
  return ret >>> 0;
}
function response() {
  const ret = wasm.response();
  return ret >>> 0;
}
function setBan(policies, count) {
  wasm.setBan(policies, count);
}
function startPolicySet() {
  wasm.startPolicySet();
}
function texts() {
  const ret = wasm.texts();
  return ret >>> 0;
}
function __wbg_get_imports() {
  const import0 = {
    __proto__: null,
    __wbg___wbindgen_throw_4c88d8bf264fd984: function(arg0, arg1) {
      throw new Error(getStringFromWasm0(arg0, arg1));
    },
    __wbg_offsetAt_f30229e65eafb6a7: function(arg0, arg1) {
      const ret = offsetAt(arg0 >>> 0, arg1);
      return ret;
    }
  };
  return {
    __proto__: null,
    "./engine_bg.js": import0,
    "./host.js": host_exports
  };
}
var WasmMemoryLimiterFinalization = typeof FinalizationRegistry === "undefined" ? { register: () => {
}, unregister: () => {
} } : new FinalizationRegistry((ptr) => wasm.__wbg_wasmmemorylimiter_free(ptr, 1));
var WasmMemoryStoreFinalization = typeof FinalizationRegistry === "undefined" ? { register: () => {
}, unregister: () => {
} } : new FinalizationRegistry((ptr) => wasm.__wbg_wasmmemorystore_free(ptr, 1));
function getStringFromWasm0(ptr, len) {
  ptr = ptr >>> 0;
  return decodeText(getUint8ArrayMemory0().subarray(ptr, ptr + len));
}
var cachedUint8ArrayMemory0 = null;
function getUint8ArrayMemory0() {
  if (cachedUint8ArrayMemory0 === null || cachedUint8ArrayMemory0.byteLength === 0) {
    cachedUint8ArrayMemory0 = new Uint8Array(wasm.memory.buffer);
  }
  return cachedUint8ArrayMemory0;
}
var cachedTextDecoder = new TextDecoder("utf-8", { ignoreBOM: true });
cachedTextDecoder.decode();
var MAX_SAFARI_DECODE_BYTES = 2146435072;
var numBytesDecoded = 0;
function decodeText(bytes) {
  numBytesDecoded += bytes.length;
  if (numBytesDecoded >= MAX_SAFARI_DECODE_BYTES) {
    cachedTextDecoder = new TextDecoder("utf-8", { ignoreBOM: true });
    cachedTextDecoder.decode();
    numBytesDecoded = bytes.length;
  }
  return cachedTextDecoder.decode(bytes);
}
var wasmModule;
var wasmInstance;
var wasm;
function __wbg_finalize_init(instance, module2) {
  wasmInstance = instance;
  wasm = instance.exports;
  wasmModule = module2;
  cachedUint8ArrayMemory0 = null;
  return wasm;
}
function initSync(module2) {
  if (wasm !== void 0) return wasm;
  if (module2 !== void 0) {
    if (Object.getPrototypeOf(module2) === Object.prototype) {
      ({ module: module2 } = module2);
    } else {
      console.warn("using deprecated parameters for `initSync()`; pass a single object instead");
    }
  }
  const imports = __wbg_get_imports();
  if (!(module2 instanceof WebAssembly.Module)) {
    module2 = new WebAssembly.Module(module2);
  }
  const instance = new WebAssembly.Instance(module2, imports);
  return __wbg_finalize_init(instance, module2);
}
// Annotate the CommonJS export names for ESM import in node:
0 && (module.exports = {
  WasmMemoryLimiter,
  WasmMemoryStore,
  addOverride,
  addPolicy,
  checkPolicy,
  checkPolicySet,
  initSync,
  lengths,
  operands,
  response,
  setBan,
  setHost,
  startPolicySet,
  texts
});
