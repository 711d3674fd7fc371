/** The playground: the same traffic through one to three policies. The real engine decides. */
import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ALGORITHM_NAMES } from '../model/algorithms.js'
import { fits, hashOf, MAX_POLICIES, type PageState, policyOf, trafficOf } from '../model/state.js'
import { withBurst } from '../model/traffic.js'
import { count } from '../model/words.js'
import { Chooser } from './chooser.js'
import { docsLink } from './docs.js'
import { focusLater } from './focus.js'
import { Overview } from './overview.js'
import { PolicyCard } from './policy-card.js'
import { topsOf } from './results.js'
import { TrafficPanel } from './traffic-panel.js'
import { useAddress } from './use-address.js'
import { type ResponseState, useResponses } from './use-responses.js'

/** Links to example states of this page. */
const EXAMPLES: readonly (readonly [title: string, state: PageState])[] = [
  [
    'Twice the limit at a window’s edge',
    {
      traffic: trafficOf('edge'),
      policies: [policyOf('fixedWindow'), policyOf('slidingCounter'), policyOf('slidingLog')],
    },
  ],
  [
    'How large a burst?',
    {
      traffic: trafficOf('bursts'),
      policies: ['5', '20', '40'].map((burst) => policyOf('gcra', { burst })),
    },
  ],
  ['One greedy client', { traffic: trafficOf('clients'), policies: [policyOf('gcra'), policyOf('slidingWindow')] }],
]

/** How long the numbers must be unchanged before they are announced. */
const ANNOUNCE_DELAY_MS = 700

function Page() {
  const [state, setState] = useAddress()
  const responses = useResponses(state)
  const { traffic, policies } = state
  const { summary, results, answer, isBusy, failure } = responses
  const tops = topsOf(results.flatMap((one) => ('outcome' in one ? [one.outcome] : [])))
  const inputError = answer !== undefined && 'inputError' in answer ? answer.inputError : undefined
  const change = (next: readonly PageState['policies'][number][]) => setState({ ...state, policies: next })
  const isFull = policies.length >= MAX_POLICIES
  const docs = docsLink('algorithms')
  const sendBurst = (atUs?: number) => {
    if (summary !== undefined) {
      setState({ ...state, traffic: { ...traffic, values: withBurst(traffic.values, summary.lengthUs, atUs) } })
    }
  }
  return (
    <>
      <header class="top">
        <h1>
          tollgate <small>playground</small>
        </h1>
        <p>
          The same traffic through one to three policies, decided by the real engine.{' '}
          {docs !== undefined && <a href={docs}>About the algorithms</a>}
        </p>
      </header>
      <main aria-busy={isBusy}>
        {failure !== undefined && (
          <p class="error" role="alert">
            {failure}
          </p>
        )}
        <Overview
          policies={policies}
          summary={summary}
          results={results}
          isStale={inputError !== undefined}
          onBurst={traffic.shape === 'pasted' ? undefined : sendBurst}
        />
        <nav class="examples" aria-label="Examples">
          <ul>
            {EXAMPLES.map(([title, example]) => (
              <li key={title}>
                <a href={`#${hashOf(example)}`}>{title}</a>
              </li>
            ))}
          </ul>
        </nav>
        <TrafficPanel
          traffic={traffic}
          summary={summary}
          inputError={inputError}
          fits={fits(state)}
          onChange={(next) => setState({ ...state, traffic: next })}
          onWatch={(watch) => setState({ ...state, watch })}
        />
        <section class="policies" aria-labelledby="policies-title">
          <header>
            <h2 id="policies-title">Policies</h2>
            {/* A disabled button would lose the focus. */}
            <button
              type="button"
              id="add-policy"
              aria-disabled={isFull}
              onClick={() => {
                if (!isFull) {
                  change([...policies, policyOf(unusedOf(policies))])
                  focusLater(`policy-${policies.length}-algorithm`)
                }
              }}
            >
              Add a policy{isFull && ` (at most ${MAX_POLICIES})`}
            </button>
          </header>
          <Chooser
            current={policies[0] ?? policyOf('gcra')}
            onChoose={(policy) => {
              change(policies.with(0, policy))
              focusLater('policy-0-algorithm')
            }}
          />
          <div class="cards">
            {policies.map((policy, index) => (
              <PolicyCard
                // Policies are identified by their index, because two may be equal.
                key={index}
                index={index}
                policy={policy}
                summary={summary}
                result={results[index]}
                tops={tops}
                isStale={inputError !== undefined}
                onChange={(next) => change(policies.with(index, next))}
                onRemove={
                  policies.length > 1
                    ? () => {
                        change(policies.toSpliced(index, 1))
                        focusLater(`policy-${Math.min(index, policies.length - 2)}-algorithm`)
                      }
                    : undefined
                }
              />
            ))}
          </div>
        </section>
        <Announcement state={state} responses={responses} />
      </main>
      <footer>
        <p>
          All results are computed in this page, by tollgate’s engine as WebAssembly. No data leaves your browser. To
          share what you see, copy the address. <a href="licences.txt">Licences</a>
        </p>
      </footer>
    </>
  )
}

/** The algorithm to add: one that is not used yet. */
function unusedOf(policies: PageState['policies']) {
  const used = policies.map(({ algorithm }) => algorithm)
  return ALGORITHM_NAMES.find((name) => !used.includes(name)) ?? 'gcra'
}

/** Announces the results to screen readers once they are stable. */
function Announcement({ state, responses }: { readonly state: PageState; readonly responses: ResponseState }) {
  const [announcement, setAnnouncement] = useState('')
  const { results, isBusy, answer } = responses
  useEffect(() => {
    if (isBusy || answer === undefined) {
      return
    }
    const sentences = 'inputError' in answer ? [answer.inputError.message] : results.map(sentence)
    const timer = setTimeout(() => setAnnouncement(sentences.join(' ')), ANNOUNCE_DELAY_MS)
    return () => clearTimeout(timer)

    function sentence(one: (typeof results)[number], index: number): string {
      const name = state.policies[index]?.algorithm ?? ''
      if ('inputError' in one) {
        return one.inputError.message
      }
      const { admitted, refused } = one.outcome
      return `${name}: ${count(admitted)} admitted, ${count(refused)} refused.`
    }
  }, [results, isBusy, answer, state])
  return (
    <p class="hidden" role="status" aria-live="polite">
      {announcement}
    </p>
  )
}

const place = document.getElementById('page')
if (place !== null) {
  render(<Page />, place)
}
