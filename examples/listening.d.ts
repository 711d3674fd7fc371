// A server that listens on a port has an address with one: so much the examples take for granted.
import type { AddressInfo } from 'node:net'

declare module 'net' {
  interface Server {
    address(): AddressInfo
  }
}
