import { createHash } from 'node:crypto'
import { TollgateError } from '../api/error.js'
import type { CheckedJobOptions, JobPermit, LimitedJob } from './options.js'

/** What a job is charged for. */
export interface JobCall {
  readonly key: unknown
  readonly cost: unknown
  readonly tier: string | undefined
}

export async function callOf({ keyOf, costOf, tierOf }: CheckedJobOptions, job: LimitedJob): Promise<JobCall> {
  return { key: await keyOf(job), cost: await costOf(job), tier: (await tierOf(job)) as string | undefined }
}

/** Charges a job, once for each id; `undefined` if the limiter could not decide. */
export async function charge(
  options: CheckedJobOptions,
  job: LimitedJob,
  { key, cost, tier }: JobCall,
): Promise<JobPermit | undefined> {
  const { limiter, hasPermits, idTtl } = options
  const call = { ...(cost !== undefined && { cost }), ...(tier !== undefined && { tier }) }
  const decide = async (given: object): Promise<JobPermit> => {
    if (hasPermits) {
      return await limiter.acquire(key, given)
    }
    const decision = await limiter.take(key, given)
    return { allowed: decision.allowed, decision }
  }
  try {
    return await decide({ ...call, id: idOf(job, options), idTtl }).catch((error) => {
      if (TollgateError.is(error) && error.code === 'STORE_FULL') {
        // The key has too many ids. Without one the job runs, and would be charged again after a stall.
        return decide(call)
      }
      throw error
    })
  } catch (error) {
    if (TollgateError.is(error) && !error.code.startsWith('INVALID_')) {
      return undefined
    }
    throw error
  }
}

/** A hash: ids of jobs may be longer than those of calls. The time tells jobs apart that were added under one id. */
function idOf({ id, timestamp, attemptsMade, queueQualifiedName }: LimitedJob, options: CheckedJobOptions): string {
  const parts = [queueQualifiedName, id, timestamp, options.chargeRetries ? attemptsMade : 0]
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 22)
}
