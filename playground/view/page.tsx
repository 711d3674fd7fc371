/** The playground: the same traffic through one to three policies, decided by the real engine. */
import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ALGORITHM_NAMES } from '../model/algorithms.js'
import { fits, hashOf, MOST_POLICIES, policyOf, type State, trafficOf } from '../model/state.js'
import { PolicyCard } from './policy-card.js'
import { topsOf } from './results.js'
import { TrafficPanel } from './traffic-panel.js'
import { useAddress } from './use-address.js'
import { type Known, useAnswers } from './use-answers.js'
import { count } from './words.js'

/** What to look at first: links to states of this page. */
const EXAMPLES: readonly (readonly [title: string, state: State])[] = [
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

/** How long it is quiet before the numbers are read out. */
const SETTLED_MS = 700

function Page() {
  const [state, setState] = useAddress()
  const known = useAnswers(state)
  const { traffic, policies } = state
  const { sent, judged, answer, isBusy, failure } = known
  const tops = topsOf(judged.flatMap((one) => ('outcome' in one ? [one.outcome] : [])))
  const complaint = answer !== undefined && 'complaint' in answer ? answer.complaint : undefined
  const change = (next: readonly State['policies'][number][]) => setState({ ...state, policies: next })
  const { cost: typedCost = '1' } = traffic.values
  const cost = Number(typedCost)
  return (
    <>
      <header class="top">
        <h1>
          tollgate <small>playground</small>
        </h1>
        <p>The same traffic through one to three policies, decided by the real engine.</p>
        <nav aria-label="Examples">
          <ul>
            {EXAMPLES.map(([title, example]) => (
              <li key={title}>
                <a href={`#${hashOf(example)}`}>{title}</a>
              </li>
            ))}
          </ul>
        </nav>
      </header>
      <main aria-busy={isBusy}>
        {failure !== undefined && (
          <p class="wrong" role="alert">
            {failure}
          </p>
        )}
        <TrafficPanel
          traffic={traffic}
          sent={sent}
          complaint={complaint}
          fits={fits(state)}
          onChange={(next) => setState({ ...state, traffic: next })}
          onWatch={(watch) => setState({ ...state, watch })}
        />
        <section class="policies" aria-labelledby="policies-title">
          <header>
            <h2 id="policies-title">Policies</h2>
            {policies.length < MOST_POLICIES && (
              <button type="button" onClick={() => change([...policies, policyOf(unusedOf(policies))])}>
                Add a policy
              </button>
            )}
          </header>
          <div class="cards">
            {policies.map((policy, index) => (
              <PolicyCard
                // Policies are told apart by their places alone: two may be equal.
                key={`${index}-${policy.algorithm}`}
                index={index}
                policy={policy}
                sent={sent}
                judged={judged[index]}
                tops={tops}
                cost={Number.isSafeInteger(cost) && cost > 0 ? cost : 1}
                onChange={(next) => change(policies.with(index, next))}
                onRemove={policies.length > 1 ? () => change(policies.toSpliced(index, 1)) : undefined}
              />
            ))}
          </div>
        </section>
        <Spoken state={state} known={known} />
      </main>
      <footer>
        <p>
          Everything is computed in this page, by tollgate’s engine as WebAssembly; nothing is sent anywhere. The
          address holds what you see: copy it to share. <a href="licences.txt">Licences</a>
        </p>
      </footer>
    </>
  )
}

/** The algorithm to add: one that is not there yet. */
function unusedOf(policies: State['policies']) {
  const used = policies.map(({ algorithm }) => algorithm)
  return ALGORITHM_NAMES.find((name) => !used.includes(name)) ?? 'gcra'
}

/** What became of it all, for those who hear the page: said once it is settled. */
function Spoken({ state, known }: { readonly state: State; readonly known: Known }) {
  const [said, setSaid] = useState('')
  const { judged, isBusy, answer } = known
  useEffect(() => {
    if (isBusy || answer === undefined) {
      return
    }
    const sentences = 'complaint' in answer ? [answer.complaint.message] : judged.map(sentence)
    const timer = setTimeout(() => setSaid(sentences.join(' ')), SETTLED_MS)
    return () => clearTimeout(timer)

    function sentence(one: (typeof judged)[number], index: number): string {
      const name = state.policies[index]?.algorithm ?? ''
      if ('complaint' in one) {
        return `${one.complaint.message}.`
      }
      const { admitted, refused } = one.outcome
      return `${name}: ${count(admitted)} admitted, ${count(refused)} refused.`
    }
  }, [judged, isBusy, answer, state])
  return (
    <p class="hidden" role="status" aria-live="polite">
      {said}
    </p>
  )
}

const place = document.getElementById('page')
if (place !== null) {
  render(<Page />, place)
}
