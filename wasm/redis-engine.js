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
  WasmFlush: () => WasmFlush,
  WasmRedisLimiter: () => WasmRedisLimiter,
  WasmRedisStore: () => WasmRedisStore,
  addOverride: () => addOverride,
  addPolicy: () => addPolicy,
  checkPolicy: () => checkPolicy,
  checkPolicySet: () => checkPolicySet,
  drawSeed: () => drawSeed,
  initSync: () => initSync,
  lengths: () => lengths,
  operands: () => operands,
  policiesName: () => policiesName,
  policiesSource: () => policiesSource,
  response: () => response,
  scriptDigest: () => scriptDigest,
  scriptSource: () => scriptSource,
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
var WasmFlush = class _WasmFlush {
  __destroy_into_raw() {
    const ptr = this.__wbg_ptr;
    this.__wbg_ptr = 0;
    WasmFlushFinalization.unregister(this);
    return ptr;
  }
  free() {
    const ptr = this.__destroy_into_raw();
    wasm.__wbg_wasmflush_free(ptr, 0);
  }
  /**
   * Appends the calls of a later flush, if one script call can have them all. Neither flush has
   * been sent; this one must be [started](Self::start) again. Returns whether it did.
   * @param {WasmFlush} later
   * @returns {boolean}
   */
  append(later) {
    _assertClass(later, _WasmFlush);
    const ret = wasm.wasmflush_append(this.__wbg_ptr, later.__wbg_ptr);
    return ret !== 0;
  }
  /**
   * A script call's arguments.
   * @param {number} index
   * @returns {string[]}
   */
  arguments(index) {
    const ret = wasm.wasmflush_arguments(this.__wbg_ptr, index);
    var v1 = getArrayJsValueFromWasm0(ret[0], ret[1]);
    wasm.__wbindgen_free(ret[0], ret[1] * 4, 4);
    return v1;
  }
  /**
   * The number of its calls.
   * @returns {number}
   */
  callCount() {
    const ret = wasm.wasmflush_callCount(this.__wbg_ptr);
    return ret >>> 0;
  }
  /**
   * Returns the answers to all calls, after all script calls have a result.
   * `ts/backends/redis/batching/response-decoder.ts` decodes them.
   * @returns {Float64Array}
   */
  complete() {
    const ret = wasm.wasmflush_complete(this.__wbg_ptr);
    var v1 = getArrayF64FromWasm0(ret[0], ret[1]).slice();
    wasm.__wbindgen_free(ret[0], ret[1] * 8, 8);
    return v1;
  }
  /**
   * Fails the script calls that have not run: the deadline has passed.
   */
  failUnsent() {
    wasm.wasmflush_failUnsent(this.__wbg_ptr);
  }
  /**
   * Whether all script calls have an answer.
   * @returns {boolean}
   */
  isAnswered() {
    const ret = wasm.wasmflush_isAnswered(this.__wbg_ptr);
    return ret !== 0;
  }
  /**
   * Whether some script calls must wait before they are sent again.
   * @returns {boolean}
   */
  isPaused() {
    const ret = wasm.wasmflush_isPaused(this.__wbg_ptr);
    return ret !== 0;
  }
  /**
   * The names of a script call's keys.
   * @param {number} index
   * @returns {string[]}
   */
  keys(index) {
    const ret = wasm.wasmflush_keys(this.__wbg_ptr, index);
    var v1 = getArrayJsValueFromWasm0(ret[0], ret[1]);
    wasm.__wbindgen_free(ret[0], ret[1] * 4, 4);
    return v1;
  }
  /**
   * A flush without calls. If it `peeks`, its calls change nothing.
   * @param {boolean} peeks
   */
  constructor(peeks) {
    const ret = wasm.wasmflush_new(peeks);
    this.__wbg_ptr = ret;
    WasmFlushFinalization.register(this, this.__wbg_ptr, this);
    return this;
  }
  /**
   * Handles a client's error: its message, and the code of a failed system call. Only an error
   * that is certainly the server's own, or that nothing was sent, means that the script has not
   * run.
   * @param {number} index
   * @param {string} message
   * @param {string} system_code
   */
  onError(index, message, system_code) {
    const val3 = +index;
    let ptr0, len0, ptr1, len1;
    try {
      ptr0 = passStringToWasm0(message, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
      len0 = WASM_VECTOR_LEN;
      ptr1 = passStringToWasm0(system_code, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
      len1 = WASM_VECTOR_LEN;
    } catch (e) {
      if (ptr1) {
        wasm.__wbindgen_free(ptr1, len1 * 1, 1);
      }
      if (ptr0) {
        wasm.__wbindgen_free(ptr0, len0 * 1, 1);
      }
      throw e;
    }
    wasm.wasmflush_onError(this.__wbg_ptr, val3, ptr0, len0, ptr1, len1);
  }
  /**
   * Handles the reply to a script call. If it is invalid, each of the calls is malformed.
   * @param {number} index
   * @param {string} reply
   */
  onReply(index, reply) {
    const val2 = +index;
    const ptr0 = passStringToWasm0(reply, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
    const len0 = WASM_VECTOR_LEN;
    wasm.wasmflush_onReply(this.__wbg_ptr, val2, ptr0, len0);
  }
  /**
   * The deadline has passed while a script call was in flight.
   * @param {number} index
   */
  onTimeout(index) {
    wasm.wasmflush_onTimeout(this.__wbg_ptr, index);
  }
  /**
   * Adds a peek of `cost` units from the keys in the scratch buffer. Returns 0 or a failure's
   * code.
   * @param {WasmRedisLimiter} limiter
   * @param {string | null | undefined} tag
   * @param {number} cost
   * @returns {number}
   */
  pushPeek(limiter, tag, cost) {
    _assertClass(limiter, WasmRedisLimiter);
    const val2 = +cost;
    var ptr0 = isLikeNone(tag) ? 0 : passStringToWasm0(tag, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
    var len0 = WASM_VECTOR_LEN;
    const ret = wasm.wasmflush_pushPeek(this.__wbg_ptr, limiter.__wbg_ptr, ptr0, len0, val2);
    return ret;
  }
  /**
   * Adds the enqueued calls of a limiter.
   * @param {WasmRedisLimiter} limiter
   */
  push(limiter) {
    _assertClass(limiter, WasmRedisLimiter);
    wasm.wasmflush_push(this.__wbg_ptr, limiter.__wbg_ptr);
  }
  /**
   * Ends an attempt, and prepares script calls of one key each in the place of those that the
   * server refused because their keys are in several slots. Returns whether there were any.
   * @returns {boolean}
   */
  retryCrossSlot() {
    const ret = wasm.wasmflush_retryCrossSlot(this.__wbg_ptr);
    return ret !== 0;
  }
  /**
   * Ends an attempt, and prepares script calls that retry stale calls. Returns the server's time
   * in epoch microseconds, or -1 if there is nothing to retry.
   * @returns {number}
   */
  retryStale() {
    const ret = wasm.wasmflush_retryStale(this.__wbg_ptr);
    return ret;
  }
  /**
   * Whether a script call must be sent as the script's source, not as its digest.
   * @param {number} index
   * @returns {boolean}
   */
  sendsSource(index) {
    const ret = wasm.wasmflush_sendsSource(this.__wbg_ptr, index);
    return ret !== 0;
  }
  /**
   * Builds the script calls for the server's estimated time, in epoch microseconds.
   * @param {number} epoch_us
   * @param {boolean} has_one_key_per_script
   */
  start(epoch_us, has_one_key_per_script) {
    wasm.wasmflush_start(this.__wbg_ptr, epoch_us, has_one_key_per_script);
  }
  /**
   * The texts of failures.
   * @returns {string[]}
   */
  texts() {
    const ret = wasm.wasmflush_texts(this.__wbg_ptr);
    var v1 = getArrayJsValueFromWasm0(ret[0], ret[1]);
    wasm.__wbindgen_free(ret[0], ret[1] * 4, 4);
    return v1;
  }
  /**
   * The indexes of the script calls that have no answer.
   * @returns {Uint32Array}
   */
  unanswered() {
    const ret = wasm.wasmflush_unanswered(this.__wbg_ptr);
    var v1 = getArrayU32FromWasm0(ret[0], ret[1]).slice();
    wasm.__wbindgen_free(ret[0], ret[1] * 4, 4);
    return v1;
  }
};
if (Symbol.dispose) WasmFlush.prototype[Symbol.dispose] = WasmFlush.prototype.free;
var WasmRedisLimiter = class _WasmRedisLimiter {
  static __wrap(ptr) {
    const obj = Object.create(_WasmRedisLimiter.prototype);
    obj.__wbg_ptr = ptr;
    WasmRedisLimiterFinalization.register(obj, obj.__wbg_ptr, obj);
    return obj;
  }
  __destroy_into_raw() {
    const ptr = this.__wbg_ptr;
    this.__wbg_ptr = 0;
    WasmRedisLimiterFinalization.unregister(this);
    return ptr;
  }
  free() {
    const ptr = this.__destroy_into_raw();
    wasm.__wbg_wasmredislimiter_free(ptr, 0);
  }
  /**
   * Releases the prefix for other policies. No call of this limiter may be pending.
   */
  close() {
    wasm.wasmredislimiter_close(this.__wbg_ptr);
  }
  /**
   * Enqueues a take of `cost` units from the first key in the scratch buffer, which has `length`
   * bytes. Returns 0 or a failure's code.
   * @param {number} length
   * @param {number} cost
   * @returns {number}
   */
  enqueueTake(length, cost) {
    const ret = wasm.wasmredislimiter_enqueueTake(this.__wbg_ptr, length, cost);
    return ret;
  }
  /**
   * Enqueues an operation on the keys in the scratch buffer, which also has the `count` numbers of
   * `numbersOf` in `ts/backends/operation.ts`. Returns 0 or a failure's code.
   * @param {string | null | undefined} tag
   * @param {number} code
   * @param {number} count
   * @returns {number}
   */
  enqueue(tag, code, count) {
    const val2 = +code;
    const val3 = +count;
    var ptr0 = isLikeNone(tag) ? 0 : passStringToWasm0(tag, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
    var len0 = WASM_VECTOR_LEN;
    const ret = wasm.wasmredislimiter_enqueue(this.__wbg_ptr, ptr0, len0, val2, val3);
    return ret;
  }
  /**
   * Opens a limiter on the same keys and the same queue, with the policies in the builder, as the
   * variant of this index: see `NativeRedisLimiter::open_variant`. If it fails, it writes the
   * reason to the scratch buffer and returns nothing.
   * @param {boolean} is_single
   * @param {number} index
   * @param {boolean} replaces
   * @returns {WasmRedisLimiter | undefined}
   */
  openVariant(is_single, index, replaces) {
    const ret = wasm.wasmredislimiter_openVariant(this.__wbg_ptr, is_single, index, replaces);
    return ret === 0 ? void 0 : _WasmRedisLimiter.__wrap(ret);
  }
};
if (Symbol.dispose) WasmRedisLimiter.prototype[Symbol.dispose] = WasmRedisLimiter.prototype.free;
var WasmRedisStore = class {
  __destroy_into_raw() {
    const ptr = this.__wbg_ptr;
    this.__wbg_ptr = 0;
    WasmRedisStoreFinalization.unregister(this);
    return ptr;
  }
  free() {
    const ptr = this.__destroy_into_raw();
    wasm.__wbg_wasmredisstore_free(ptr, 0);
  }
  /**
   * A store without limiters.
   */
  constructor() {
    const ret = wasm.wasmredisstore_new();
    this.__wbg_ptr = ret;
    WasmRedisStoreFinalization.register(this, this.__wbg_ptr, this);
    return this;
  }
  /**
   * Opens a limiter. The scratch buffer has its prefix as its first text; the builder has its
   * policies. If the policies are invalid, or the prefix is open with other policies, this
   * writes the reason to the buffer and returns nothing.
   * @param {boolean} is_single
   * @returns {WasmRedisLimiter | undefined}
   */
  open(is_single) {
    const ret = wasm.wasmredisstore_open(this.__wbg_ptr, is_single);
    return ret === 0 ? void 0 : WasmRedisLimiter.__wrap(ret);
  }
};
if (Symbol.dispose) WasmRedisStore.prototype[Symbol.dispose] = WasmRedisStore.prototype.free;
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
function drawSeed() {
  wasm.drawSeed();
}
function lengths() {
  const ret = wasm.lengths();
  return ret >>> 0;
}
function operands() {
  const ret = wasm.operands();
  return ret >>> 0;
}
function policiesName(prefix) {
  let deferred2_0;
  let deferred2_1;
  try {
    const ptr0 = passStringToWasm0(prefix, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
    const len0 = WASM_VECTOR_LEN;
    const ret = wasm.policiesName(ptr0, len0);
    deferred2_0 = ret[0];
    deferred2_1 = ret[1];
    return getStringFromWasm0(ret[0], ret[1]);
  } finally {
    wasm.__wbindgen_free(deferred2_0, deferred2_1, 1);
  }
}
function policiesSource() {
  let deferred1_0;
  let deferred1_1;
  try {
    const ret = wasm.policiesSource();
    deferred1_0 = ret[0];
    deferred1_1 = ret[1];
    return getStringFromWasm0(ret[0], ret[1]);
  } finally {
    wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
  }
}
function response() {
  const ret = wasm.response();
  return ret >>> 0;
}
function scriptDigest() {
  let deferred1_0;
  let deferred1_1;
  try {
    const ret = wasm.scriptDigest();
    deferred1_0 = ret[0];
    deferred1_1 = ret[1];
    return getStringFromWasm0(ret[0], ret[1]);
  } finally {
    wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
  }
}
function scriptSource() {
  let deferred1_0;
  let deferred1_1;
  try {
    const ret = wasm.scriptSource();
    deferred1_0 = ret[0];
    deferred1_1 = ret[1];
    return getStringFromWasm0(ret[0], ret[1]);
  } finally {
    wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
  }
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
    },
    __wbindgen_generic_0000000000000001: function(arg0, arg1) {
      const ret = getStringFromWasm0(arg0, arg1);
      return addHeapObject(ret);
    }
  };
  return {
    __proto__: null,
    "./engine_bg.js": import0,
    "./host.js": host_exports
  };
}
var WasmFlushFinalization = typeof FinalizationRegistry === "undefined" ? { register: () => {
}, unregister: () => {
} } : new FinalizationRegistry((ptr) => wasm.__wbg_wasmflush_free(ptr, 1));
var WasmRedisLimiterFinalization = typeof FinalizationRegistry === "undefined" ? { register: () => {
}, unregister: () => {
} } : new FinalizationRegistry((ptr) => wasm.__wbg_wasmredislimiter_free(ptr, 1));
var WasmRedisStoreFinalization = typeof FinalizationRegistry === "undefined" ? { register: () => {
}, unregister: () => {
} } : new FinalizationRegistry((ptr) => wasm.__wbg_wasmredisstore_free(ptr, 1));
function addHeapObject(obj) {
  if (heap_next === heap.length) heap.push(heap.length + 1);
  const idx = heap_next;
  heap_next = heap[idx];
  heap[idx] = obj;
  return idx;
}
function _assertClass(instance, klass) {
  if (!(instance instanceof klass)) {
    throw new Error(`expected instance of ${klass.name}`);
  }
}
function dropObject(idx) {
  if (idx < 1028) return;
  heap[idx] = heap_next;
  heap_next = idx;
}
function getArrayF64FromWasm0(ptr, len) {
  ptr = ptr >>> 0;
  return getFloat64ArrayMemory0().subarray(ptr / 8, ptr / 8 + len);
}
function getArrayJsValueFromWasm0(ptr, len) {
  ptr = ptr >>> 0;
  const mem = getDataViewMemory0();
  const result = [];
  for (let i = ptr; i < ptr + 4 * len; i += 4) {
    result.push(takeObject(mem.getUint32(i, true)));
  }
  return result;
}
function getArrayU32FromWasm0(ptr, len) {
  ptr = ptr >>> 0;
  return getUint32ArrayMemory0().subarray(ptr / 4, ptr / 4 + len);
}
var cachedDataViewMemory0 = null;
function getDataViewMemory0() {
  if (cachedDataViewMemory0 === null || cachedDataViewMemory0.buffer.detached === true || cachedDataViewMemory0.buffer.detached === void 0 && cachedDataViewMemory0.buffer !== wasm.memory.buffer) {
    cachedDataViewMemory0 = new DataView(wasm.memory.buffer);
  }
  return cachedDataViewMemory0;
}
var cachedFloat64ArrayMemory0 = null;
function getFloat64ArrayMemory0() {
  if (cachedFloat64ArrayMemory0 === null || cachedFloat64ArrayMemory0.byteLength === 0) {
    cachedFloat64ArrayMemory0 = new Float64Array(wasm.memory.buffer);
  }
  return cachedFloat64ArrayMemory0;
}
function getStringFromWasm0(ptr, len) {
  ptr = ptr >>> 0;
  return decodeText(getUint8ArrayMemory0().subarray(ptr, ptr + len));
}
var cachedUint32ArrayMemory0 = null;
function getUint32ArrayMemory0() {
  if (cachedUint32ArrayMemory0 === null || cachedUint32ArrayMemory0.byteLength === 0) {
    cachedUint32ArrayMemory0 = new Uint32Array(wasm.memory.buffer);
  }
  return cachedUint32ArrayMemory0;
}
var cachedUint8ArrayMemory0 = null;
function getUint8ArrayMemory0() {
  if (cachedUint8ArrayMemory0 === null || cachedUint8ArrayMemory0.byteLength === 0) {
    cachedUint8ArrayMemory0 = new Uint8Array(wasm.memory.buffer);
  }
  return cachedUint8ArrayMemory0;
}
function getObject(idx) {
  return heap[idx];
}
var heap = new Array(1024).fill(void 0);
heap.push(void 0, null, true, false);
var heap_next = heap.length;
function isLikeNone(x) {
  return x === void 0 || x === null;
}
function passStringToWasm0(arg, malloc, realloc) {
  if (realloc === void 0) {
    const buf = cachedTextEncoder.encode(arg);
    const ptr2 = malloc(buf.length, 1) >>> 0;
    getUint8ArrayMemory0().subarray(ptr2, ptr2 + buf.length).set(buf);
    WASM_VECTOR_LEN = buf.length;
    return ptr2;
  }
  let len = arg.length;
  let ptr = malloc(len, 1) >>> 0;
  const mem = getUint8ArrayMemory0();
  let offset = 0;
  for (; offset < len; offset++) {
    const code = arg.charCodeAt(offset);
    if (code > 127) break;
    mem[ptr + offset] = code;
  }
  if (offset !== len) {
    if (offset !== 0) {
      arg = arg.slice(offset);
    }
    ptr = realloc(ptr, len, len = offset + arg.length * 3, 1) >>> 0;
    const view = getUint8ArrayMemory0().subarray(ptr + offset, ptr + len);
    const ret = cachedTextEncoder.encodeInto(arg, view);
    offset += ret.written;
    ptr = realloc(ptr, len, offset, 1) >>> 0;
  }
  WASM_VECTOR_LEN = offset;
  return ptr;
}
function takeObject(idx) {
  const ret = getObject(idx);
  dropObject(idx);
  return ret;
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
var cachedTextEncoder = new TextEncoder();
if (!("encodeInto" in cachedTextEncoder)) {
  cachedTextEncoder.encodeInto = function(arg, view) {
    const buf = cachedTextEncoder.encode(arg);
    view.set(buf);
    return {
      read: arg.length,
      written: buf.length
    };
  };
}
var WASM_VECTOR_LEN = 0;
var wasmModule;
var wasmInstance;
var wasm;
function __wbg_finalize_init(instance, module2) {
  wasmInstance = instance;
  wasm = instance.exports;
  wasmModule = module2;
  cachedDataViewMemory0 = null;
  cachedFloat64ArrayMemory0 = null;
  cachedUint32ArrayMemory0 = null;
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
  WasmFlush,
  WasmRedisLimiter,
  WasmRedisStore,
  addOverride,
  addPolicy,
  checkPolicy,
  checkPolicySet,
  drawSeed,
  initSync,
  lengths,
  operands,
  policiesName,
  policiesSource,
  response,
  scriptDigest,
  scriptSource,
  setBan,
  setHost,
  startPolicySet,
  texts
});
