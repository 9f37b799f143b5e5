import type { Cluster } from "../api/client";
import { Icon } from "../kit/icons";

export interface ChipProps {
  label: string;
  of: (cluster: Cluster) => string[];
  chosen: string[];
  choose: (values: string[]) => void;
  clusters: Cluster[];
  nameFor: (id: string) => string;
}

export function ChipText({ label, chosen, nameFor }: ChipProps) {
  return (
    <>
      {chosen.length > 0 ? `${label}: ${chosen.map(nameFor).join(", ")}` : label}
      <Icon name="down" size={12} />
    </>
  );
}
