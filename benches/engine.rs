//! Scratch
use std::hint::black_box;
use std::time::Instant;
use tollgate::{
    algorithm::*, clock::SystemClock, decision, key::Key, policy::Policy,
    store::memory::MemoryStore,
};
fn t(n: &str, mut f: impl FnMut(usize) -> u64) {
    let mut v = vec![];
    for _ in 0..7 {
        let s = Instant::now();
        let mut x = 0;
        for i in 0..2_000_000 {
            x ^= f(i);
        }
        black_box(x);
        v.push(s.elapsed().as_nanos() as f64 / 2e6);
    }
    v.sort_by(f64::total_cmp);
    println!("{n:20} {:.1}", v[3]);
}
fn main() {
    let keys: Vec<String> = (0..10000).map(|i| format!("user:{i}:abc")).collect();
    let g = Policy::Gcra(Gcra::new(1_000_000, 3_600_000_000, 1_000_000).unwrap());
    let w = Policy::FixedWindow(FixedWindow::new(1_000_000, 3_600_000_000).unwrap());
    for (n, p) in [("gcra", g), ("window", w)] {
        let l = MemoryStore::new(1_000_000, (1, 2))
            .open("a", p.clone())
            .unwrap();
        t(&format!("{n} store sysclock"), |i| {
            l.take(Key::new(&keys[i % 10000]).unwrap(), 1, &SystemClock)
                .remaining
        });
        let mut now = 1_700_000_000_000_000u64;
        t(&format!("{n} store given"), |i| {
            now += 1;
            l.take(Key::new(&keys[i % 10000]).unwrap(), 1, &now)
                .remaining
        });
        let mut now = 1_700_000_000_000_000u64;
        let mut s = p.unused();
        t(&format!("{n} pure"), |_| {
            now += 1;
            decision::take(&p, &mut s, now, black_box(1)).remaining
        });
    }
}
