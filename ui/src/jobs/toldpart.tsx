import { Autocomplete, Button, NativeSelect } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { destinationsQuery } from "../api/destinations";
import { RemoveButton } from "../editor/fields";
import { Part } from "../editor/frame";
import type { Draft } from "./draft";
import { EVENTS, type Event, type Told, told } from "./told";
import { Amount } from "./triggerpart";

/** Who hears of the job's runs. */
export function ToldPart({ form }: { form: UseFormReturnType<Draft> }) {
  const destinations = useQuery(destinationsQuery).data ?? [];
  const change = (rows: Told[]) => form.setFieldValue("told", rows);
  const rows = form.values.told;
  const edit = (id: number, part: Partial<Told>) =>
    change(rows.map((each) => (each.id === id ? { ...each, ...part } : each)));
  const nameOf = (to: string) => destinations.find((each) => each.id === to)?.display_name ?? to;
  const idOf = (name: string) => destinations.find((each) => each.display_name === name)?.id ?? name;
  return (
    <Part title="Notifications">
      <fieldset className="map" aria-label="Notifications">
        {rows.map((each, at) => (
          <div className="pair" key={each.id}>
            <NativeSelect
              size="xs"
              aria-label={`Event ${at + 1}`}
              data={[...EVENTS]}
              value={each.event}
              onChange={(event) => edit(each.id, { event: event.currentTarget.value as Event })}
            />
            <Autocomplete
              aria-label={`Receiver ${at + 1}`}
              placeholder="Destination or e-mail address"
              data={[...new Set(destinations.map((one) => one.display_name))]}
              value={nameOf(each.to)}
              onChange={(name) => edit(each.id, { to: idOf(name) })}
            />
            <RemoveButton
              label={`Remove notification ${at + 1}`}
              onClick={() => change(rows.filter((one) => one.id !== each.id))}
            />
          </div>
        ))}
        <Button variant="subtle" onClick={() => change([...rows, told()])}>
          Add a notification
        </Button>
        {form.errors.told !== undefined && (
          <div className="wrong" role="alert">
            {form.errors.told}
          </div>
        )}
      </fieldset>
      <Amount form={form} field="warnAfter" label="Duration warning after seconds" />
    </Part>
  );
}
