import { Combobox, InputBase, useCombobox } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type FocusEvent, type ReactNode, useMemo, useState } from "react";
import { useAdmin } from "../access/rights";
import { capacityQuery, hasCapacity } from "../api/offers";
import { money } from "../clusters/facts";
import { Icon } from "../kit/icons";
import {
  COLUMNS,
  type Column,
  freeOn,
  gibText,
  hasColumn,
  inOrder,
  matching,
  nextOrder,
  type Order,
  rowText,
  type TypeRow,
  typeRows,
} from "./nodetypes";
import type { Offers } from "./state";

const HEADS: Record<Column, string> = {
  id: "Name",
  cores: "Cores",
  gib: "Memory",
  gpus: "GPUs",
  price: "Per hour",
  free: "Free now",
};
const NONE = ""; // the option of choosing none

interface Props {
  id?: string;
  label: ReactNode;
  name: string; // the label as text
  description?: ReactNode;
  error?: ReactNode;
  disabled?: boolean;
  offers: Offers;
  keep: unknown[]; // types that are shown also if they are deprecated
  only?: Set<string>; // those that a policy names
  clear?: string; // what it means to choose nothing
  placeholder?: string;
  value: string | undefined;
  choose: (value: string | undefined) => void;
}

/** Node types as a table to choose from: typing filters it, its heads sort it. */
export function TypePicker(props: Props) {
  const { offers, keep, only, clear, value, choose, name } = props;
  const machine = useQuery({ ...capacityQuery, enabled: useAdmin() && hasCapacity() }).data;
  const [text, setText] = useState<string>();
  const [order, setOrder] = useState<Order>();
  const combobox = useCombobox({
    onDropdownClose: () => {
      combobox.resetSelectedOption();
      setText(undefined);
    },
    onDropdownOpen: () => combobox.updateSelectedOptionIndex("active", { scrollIntoView: true }),
  });
  const rows = useMemo(
    () => typeRows(offers.nodeTypes, offers.prices?.perHour, { keep, only, free: freeOn(machine) }),
    [offers.nodeTypes, offers.prices, keep, only, machine],
  );
  const priceOf = (row: TypeRow) =>
    row.price === undefined ? "" : `${money(row.price, offers.prices?.currency ?? "USD")}/h`;
  const chosen = rows.find((each) => each.id === value);
  const shown = inOrder(text === undefined ? rows : matching(rows, text), order);
  const columns = COLUMNS.filter((each) => hasColumn(rows, each));
  const has = (column: Column) => columns.includes(column);
  const left = ({ currentTarget, relatedTarget }: FocusEvent<HTMLDivElement>) => {
    if (!currentTarget.contains(relatedTarget)) combobox.closeDropdown();
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: it only notices that the focus leaves
    <div className="typepicker" onBlur={left}>
      <Combobox
        store={combobox}
        withinPortal={false}
        keepMounted={false}
        width="max(100%, min(560px, 88vw))"
        position="bottom-start"
        onOptionSubmit={(id) => {
          choose(id === NONE ? undefined : id);
          combobox.closeDropdown();
        }}
      >
        <Combobox.Target withExpandedAttribute>
          <InputBase
            role="combobox"
            id={props.id}
            size="xs"
            label={props.label}
            description={props.description}
            error={props.error}
            disabled={props.disabled}
            spellCheck={false}
            autoComplete="off"
            placeholder={clear ?? props.placeholder ?? "Choose"}
            rightSection={
              clear !== undefined && value !== undefined ? (
                <Combobox.ClearButton onClear={() => choose(undefined)} aria-label={`Clear ${name.toLowerCase()}`} />
              ) : (
                <Combobox.Chevron />
              )
            }
            rightSectionPointerEvents={clear !== undefined && value !== undefined ? "all" : "none"}
            value={text ?? (chosen === undefined ? (value ?? "") : rowText(chosen, priceOf(chosen)))}
            onFocus={(event) => event.currentTarget.select()} // what is typed takes the place of what is chosen
            onClick={() => combobox.openDropdown()}
            onChange={(event) => {
              setText(event.currentTarget.value);
              combobox.openDropdown();
              combobox.selectFirstOption();
            }}
          />
        </Combobox.Target>
        <Combobox.Dropdown className={`types ${columns.map((each) => `with-${each}`).join(" ")}`}>
          <fieldset className="types-head" aria-label={`Sort ${name.toLowerCase()}s`}>
            {columns.map((each) => (
              <button
                key={each}
                type="button"
                className={`type-${each}`}
                aria-label={`Sort by ${HEADS[each]}`}
                aria-pressed={order?.by === each}
                onClick={() => setOrder(nextOrder(order, each))}
                onKeyDown={(event) => {
                  if (event.key !== "Escape") return;
                  event.stopPropagation();
                  combobox.closeDropdown();
                  combobox.focusTarget();
                }}
              >
                {HEADS[each]}
                {order?.by === each && <Icon name={order.down ? "down" : "up"} size={12} />}
              </button>
            ))}
          </fieldset>
          <Combobox.Options mah={300} className="types-rows" aria-label={name}>
            {clear !== undefined && text === undefined && (
              <Combobox.Option value={NONE} active={value === undefined}>
                {clear}
              </Combobox.Option>
            )}
            {shown.map((row) => (
              <Combobox.Option key={row.id} value={row.id} active={row.id === value} className="type">
                <span className="unseen">
                  {[rowText(row, priceOf(row)), row.free === undefined ? "" : `${row.free} free now`]
                    .filter(Boolean)
                    .join(" · ")}
                </span>
                <span className="type-id" aria-hidden="true">
                  {row.id}
                  <span className="type-family">{row.model || row.family}</span>
                </span>
                <span className="type-cores" aria-hidden="true">
                  {row.cores}
                </span>
                <span className="type-gib" aria-hidden="true">
                  {gibText(row.gib)}
                </span>
                {has("gpus") && (
                  <span className="type-gpus" aria-hidden="true">
                    {row.gpus || "–"}
                  </span>
                )}
                {has("price") && (
                  <span className="type-price" aria-hidden="true">
                    {priceOf(row).replace("/h", "") || "–"}
                  </span>
                )}
                {has("free") && (
                  <span className="type-free" aria-hidden="true">
                    {row.free ?? "–"}
                  </span>
                )}
              </Combobox.Option>
            ))}
            {shown.length === 0 && <Combobox.Empty>Nothing matches</Combobox.Empty>}
          </Combobox.Options>
          {has("free") && (
            <p className="types-foot">
              Free now: nodes that fit beside those that exist. The local provider offers more cores and memory than the
              machine has (<code>cpu_overcommit</code>, <code>memory_overcommit</code>), so busy nodes share them.
            </p>
          )}
        </Combobox.Dropdown>
      </Combobox>
    </div>
  );
}
