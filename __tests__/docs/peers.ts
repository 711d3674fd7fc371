/** Helpers for docs/migrating.md: its pairs of programs, and the apps and clients that run them. */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import 'reflect-metadata'
import type { Type } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import type { Redis as UpstashRedis } from '@upstash/redis'
import type { Express } from 'express'
import type { Redis } from 'ioredis'
import { type Block, blocks } from './pages.js'

export const PAGE = 'docs/migrating.md'

/** The exports of a program on the page: one of the first four. */
export interface Exports {
  readonly admit?: (user: string) => Promise<boolean>
  readonly run?: <T>(job: () => Promise<T>) => Promise<T>
  readonly app?: Express
  readonly AppModule?: Type
  readonly close?: () => Promise<unknown>
}

/** A program with a peer, and the same program with this package. */
export interface ProgramPair {
  readonly line: number
  readonly before: Block
  readonly after: Block
}

/** The pairs of the page, in order. */
export const pairs: readonly ProgramPair[] = blocks.flatMap((before, index) => {
  const after = blocks[index + 1]
  const isPair = before.page === PAGE && before.code.startsWith('// before') && after?.code.startsWith('// after')
  return isPair && after !== undefined ? [{ line: before.line, before, after }] : []
})

/** A listening app. */
export interface ServedApp {
  readonly url: string
  close(): Promise<unknown>
}

export async function serveExpress(app: Express): Promise<ServedApp> {
  const server = await new Promise<Server>((resolve) => {
    const listening: Server = app.listen(0, '127.0.0.1', () => resolve(listening))
  })
  const close = () => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  }
  return { url: urlOf(server), close }
}

export async function serveNest(module: Type): Promise<ServedApp> {
  const app = await NestFactory.create(module, { logger: false })
  await app.listen(0, '127.0.0.1')
  return { url: urlOf(app.getHttpServer()), close: () => app.close() }
}

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** The statuses of sequential requests. */
export async function statusesOf(url: string, requests: number): Promise<number[]> {
  const statuses: number[] = []
  for (let count = 0; count < requests; count++) {
    const response = await fetch(url)
    await response.text()
    statuses.push(response.status)
  }
  return statuses
}

/**
 * A real Redis with the interface that @upstash/redis gives its limiter. Its scripts start with a
 * line for Upstash's servers that Redis does not accept.
 */
export function upstashOver(redis: Redis): UpstashRedis {
  const client = {
    evalsha: () => Promise.reject(new Error('NOSCRIPT')),
    eval: (script: string, keys: string[], values: (string | number)[]) =>
      redis.eval(script.replace(/^#!lua.*\n/, '\n'), keys.length, ...keys, ...values),
  }
  return client as unknown as UpstashRedis
}
