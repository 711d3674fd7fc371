/** The test sentinels elect a new master when the old one is killed or frozen. */
import { SentinelGroup } from './sentinel.js'

test.each([
  ['frozen', { replicas: 2 }],
  ['killed, with passwords', { password: 'servers-secret', sentinelPassword: 'sentinels-secret', name: 'guarded' }],
])('a replica replaces a %s master, with its data', async (how, options) => {
  await using group = await SentinelGroup.start(options)
  const [first] = group.servers
  const before = await group.master()
  expect(before).toBe(first)
  await before.command('SET', 'key', 'kept')
  await before.command('WAIT', group.servers.length - 1, 30_000)
  if (how === 'frozen') {
    before.freeze()
  } else {
    await before.kill()
  }
  const after = await group.newMaster(before)
  expect(group.servers.slice(1)).toContain(after)
  expect(await after.command('GET', 'key')).toBe('kept')
  expect(await after.command('SET', 'key', 'new')).toBe('OK')
  if (how === 'frozen') {
    before.thaw()
    // The old master comes back as a replica, which sentinels notice after ten seconds.
    await group.agreed()
    expect(await group.master()).toBe(after)
    expect((await before.command<[string]>('ROLE'))[0]).toBe('slave')
  }
})

test('sentinels and servers with passwords refuse clients without', async () => {
  await using group = await SentinelGroup.start({ password: 'servers-secret', sentinelPassword: 'sentinels-secret' })
  for (const server of [...group.servers, ...group.sentinels]) {
    expect(await server.command('PING')).toBe('PONG')
    server.credentials = {}
    await expect(server.command('PING')).rejects.toThrow('NOAUTH')
  }
})
