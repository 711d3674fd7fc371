//! The published WebAssembly module, run by an interpreter through the exports that JavaScript uses.

use std::path::Path;

use wasmi::{AsContextMut, Caller, Engine, Instance, Linker, Memory, Module, Store, TypedFunc};

use crate::policies::{PolicyNumbers, SetNumbers, offset, zone_name};

/// The bytes of a text buffer in the scratch memory.
const TEXT_BYTES: usize = 1_024;
const TEXT_SLOTS: usize = 8;

/// The time zones that the host supplies have the numbers of `FixedZone`.
fn offset_at(_: Caller<'_, ()>, zone: i32, at: f64) -> f64 {
    offset(zone.unsigned_abs(), at as i64) as f64
}

/// An instance of the module.
pub(crate) struct WasmInstance {
    store: Store<()>,
    instance: Instance,
    memory: Memory,
    texts: usize,
    lengths: usize,
    arguments: usize,
    response: usize,
    execute: TypedFunc<(i32, i32, i32, f64), ()>,
    take: TypedFunc<(i32, i32, f64, f64), ()>,
}

/// The compiled module of the thread.
pub(crate) struct Compiled {
    engine: Engine,
    module: Module,
}

impl Compiled {
    pub(crate) fn load() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../generated/wasm/tollgate.wasm");
        let bytes = std::fs::read(&path).expect("npm run build:wasm has built the module");
        let engine = Engine::default();
        let module = Module::new(&engine, &bytes[..]).expect("the module is valid");
        Self { engine, module }
    }

    pub(crate) fn start(&self) -> WasmInstance {
        let mut store = Store::new(&self.engine, ());
        let mut linker = Linker::new(&self.engine);
        for import in self.module.imports() {
            let (module, name) = (import.module(), import.name());
            let linked = if name.contains("offsetAt") {
                linker.func_wrap(module, name, offset_at)
            } else if name.contains("randomBits") {
                linker.func_wrap(module, name, |_: Caller<'_, ()>| 7)
            } else {
                // Any other import throws an error.
                linker.func_wrap(
                    module,
                    name,
                    |_: Caller<'_, ()>, _: i32, _: i32| -> Result<(), wasmi::Error> {
                        Err(wasmi::Error::new("the module throws"))
                    },
                )
            };
            linked.expect("each import is defined once");
        }
        let instance =
            linker.instantiate_and_start(&mut store, &self.module).expect("the module starts");
        let memory = instance.get_memory(&store, "memory").expect("the module has a memory");
        let mut address = |name: &str| {
            let function = instance.get_typed_func::<(), i32>(&store, name).expect(name);
            function.call(&mut store, ()).expect(name).unsigned_abs() as usize
        };
        let [texts, lengths, arguments, response] =
            ["texts", "lengths", "operands", "response"].map(&mut address);
        let execute =
            instance.get_typed_func(&store, "wasmmemorylimiter_execute").expect("an export");
        let take = instance.get_typed_func(&store, "wasmmemorylimiter_take").expect("an export");
        WasmInstance { store, instance, memory, texts, lengths, arguments, response, execute, take }
    }
}

impl WasmInstance {
    fn call<P: wasmi::WasmParams, R: wasmi::WasmResults>(&mut self, name: &str, arguments: P) -> R {
        let function = self.instance.get_typed_func::<P, R>(&self.store, name).expect(name);
        function
            .call(self.store.as_context_mut(), arguments)
            .unwrap_or_else(|trap| panic!("{name}: {trap}"))
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.memory.write(&mut self.store, at, bytes).expect("the scratch memory");
    }

    fn write_text(&mut self, slot: usize, text: &str) {
        assert!(text.len() <= TEXT_BYTES);
        self.write(self.texts + slot * TEXT_BYTES, text.as_bytes());
        self.write_length(slot, text.len() as i32);
    }

    fn write_length(&mut self, slot: usize, length: i32) {
        self.write(self.lengths + slot * 4, &length.to_le_bytes());
    }

    fn write_arguments(&mut self, arguments: &[f64]) -> i32 {
        let bytes: Vec<_> = arguments.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.write(self.arguments, &bytes);
        arguments.len() as i32
    }

    fn write_policy(&mut self, numbers: &[u64], zone: u32) -> i32 {
        self.write_text(1, zone_name(zone));
        let numbers: Vec<_> = numbers.iter().map(|number| *number as f64).collect();
        self.write_arguments(&numbers)
    }

    fn build(&mut self, set: &SetNumbers) {
        self.call::<_, ()>("startPolicySet", ());
        for ((own, name), dimension) in set.policies.iter().zip(&set.names).zip(&set.dimensions) {
            self.write_text(0, name);
            let count = self.write_policy(&own.numbers, own.zone);
            self.call::<_, ()>(
                "addPolicy",
                (own.kind as i32, count, own.zone as i32, *dimension as i32),
            );
        }
        if let Some((policies, numbers)) = &set.ban {
            let numbers: Vec<_> = numbers.iter().map(|number| *number as f64).collect();
            let count = self.write_arguments(&numbers);
            self.call::<_, ()>("setBan", (*policies as i32, count));
        }
    }

    /// Opens a limiter on a new store. Returns its address.
    pub(crate) fn open(&mut self, set: &SetNumbers) -> i32 {
        let store: i32 = self.call("wasmmemorystore_new", 1_000_000_f64);
        self.build(set);
        self.write_text(0, "api");
        let limiter = self.call("wasmmemorystore_open", (store, i32::from(set.is_single)));
        assert_ne!(limiter, 0, "the module refuses {set:?}");
        limiter
    }

    /// Opens a limiter with other numbers on the same states.
    pub(crate) fn open_variant(&mut self, limiter: i32, set: &SetNumbers) -> i32 {
        self.build(set);
        let arguments = (limiter, i32::from(set.is_single), 1, 0);
        let variant = self.call("wasmmemorylimiter_openVariant", arguments);
        assert_ne!(variant, 0, "the module refuses the variant {set:?}");
        variant
    }

    /// Writes the policies of an override, by policy.
    pub(crate) fn write_overrides(&mut self, policies: &[Option<PolicyNumbers>]) {
        self.call::<_, ()>("startPolicySet", ());
        for one in policies {
            let (kind, count, zone) = match one {
                Some(own) => (own.kind, self.write_policy(&own.numbers, own.zone), own.zone),
                None => (0, 0, 0),
            };
            self.call::<_, ()>("addOverride", (kind as i32, count, zone as i32));
        }
    }

    /// Executes an operation. A trap is a failure.
    pub(crate) fn execute(
        &mut self,
        limiter: i32,
        keys: &[Option<&str>],
        code: u8,
        numbers: &[f64],
        now: u64,
    ) {
        for slot in 0..TEXT_SLOTS {
            match keys.get(slot).copied().flatten() {
                Some(key) => self.write_text(slot, key),
                None => self.write_length(slot, -1),
            }
        }
        let count = self.write_arguments(numbers);
        let arguments = (limiter, i32::from(code), count, now as f64 / 1_000.0);
        let executed = self.execute.call(&mut self.store, arguments);
        executed.unwrap_or_else(|trap| panic!("operation {code}: {trap}"));
    }

    /// Takes units from a key.
    pub(crate) fn take(&mut self, limiter: i32, key: &str, cost: u64, now: u64) {
        self.write_text(0, key);
        let arguments = (limiter, key.len() as i32, cost as f64, now as f64 / 1_000.0);
        let taken = self.take.call(&mut self.store, arguments);
        taken.unwrap_or_else(|trap| panic!("take: {trap}"));
    }

    /// The bits of the response's numbers.
    pub(crate) fn response(&self, length: usize) -> Vec<u64> {
        let mut bytes = vec![0; length * 8];
        self.memory.read(&self.store, self.response, &mut bytes).expect("the scratch memory");
        bytes.as_chunks().0.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect()
    }
}
