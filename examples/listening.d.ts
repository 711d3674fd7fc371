// The address of a server that listens on a port has a `port`: the examples assume this.
import type { AddressInfo } from 'node:net'

declare module 'net' {
  interface Server {
    address(): AddressInfo
  }
}
