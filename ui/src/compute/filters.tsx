import { lazy, Suspense, useState } from "react";
import type { Cluster } from "../api/client";
import { later } from "../kit/later";
import type { ListSearch } from "../kit/listsearch";
import { PlainButton } from "../kit/plain";
import { Search } from "../kit/searchfield";
import { type ChipProps, ChipText } from "./chip";
import { FACETS } from "./facets";

const FilterMenu = lazy(later(() => import("./filtermenu")));

type Change = (changed: Partial<ListSearch>) => void;

interface Props {
  search: ListSearch;
  change: Change;
  clusters: Cluster[];
  nameFor: (id: string) => string; // of a policy or a pool
}

export function Filters({ search, change, clusters, nameFor }: Props) {
  return (
    <search className="tools" aria-label="Clusters">
      <Search text={search.q ?? ""} change={(q) => change({ q: q || undefined })} />
      <div className="chips">
        <Toggle on={search.mine} label="Mine" change={(mine) => change({ mine })} />
        <Toggle on={search.active} label="Active" change={(active) => change({ active })} />
        {FACETS.map(({ facet, label, of }) => (
          <Chip
            key={facet}
            label={label}
            of={of}
            chosen={search[facet] ?? NONE}
            choose={(values) => change({ [facet]: values.length > 0 ? values : undefined })}
            clusters={clusters}
            nameFor={nameFor}
          />
        ))}
      </div>
    </search>
  );
}

const NONE: string[] = [];

function Toggle({ on, label, change }: { on: true | undefined; label: string; change: (on?: true) => void }) {
  return (
    <PlainButton on={on ?? false} aria-pressed={on ?? false} onClick={() => change(on ? undefined : true)}>
      {label}
    </PlainButton>
  );
}

/** A filter. What can be chosen is made when it is opened for the first time. */
function Chip(props: ChipProps) {
  const [opened, setOpened] = useState(false);
  const button = (
    <PlainButton
      on={props.chosen.length > 0}
      aria-haspopup="dialog"
      aria-expanded={false}
      onClick={() => setOpened(true)}
    >
      <ChipText {...props} />
    </PlainButton>
  );
  if (!opened) return button;
  return (
    <Suspense fallback={button}>
      <FilterMenu {...props} />
    </Suspense>
  );
}
