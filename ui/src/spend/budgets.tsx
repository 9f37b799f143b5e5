import { Button, Group, Modal, NumberInput, Progress, Text, TextInput, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useAdmin } from "../access/rights";
import { words } from "../api/client";
import { money } from "../clusters/facts";
import { confirm } from "../kit/confirm";
import { DialogForm } from "../kit/forms";
import { Icon } from "../kit/icons";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { toast } from "../kit/toasts";
import { budgetsQuery, deleteBudget, saveBudget } from "./calls";
import type { Budget } from "./grouping";
import type { SpendSearch } from "./search";

const STATES = {
  OK: { look: "good", word: "Within the budget" },
  ALERT: { look: "wait", word: "Near the limit" },
  EXCEEDED: { look: "bad", word: "Exceeded" },
};

/** Monthly budgets, and what was spent of each. */
export function Budgets({ search, show }: { search: SpendSearch; show: (budget: Budget) => void }) {
  const asked = useQuery(budgetsQuery);
  const admin = useAdmin();
  const [editing, setEditing] = useState<Budget | "new" | null>(null);
  if (!admin && asked.data?.length === 0) return null;
  return (
    <>
      <Group justify="space-between" gap="xs" mt="sm">
        <Title order={2} size="h4">
          Budgets of this month
        </Title>
        {admin && (
          <Button variant="default" leftSection={<Icon name="plus" size={14} />} onClick={() => setEditing("new")}>
            Add a budget
          </Button>
        )}
      </Group>
      {asked.data === undefined ? (
        <Reading query={asked} what="Reading the budgets" rows={2} />
      ) : asked.data.length === 0 ? (
        <Text c="dimmed">
          No budgets yet. A budget marks when a month's spend comes near an amount. It stops nothing.
        </Text>
      ) : (
        <Rows budgets={asked.data} edit={admin ? setEditing : undefined} show={show} />
      )}
      {editing !== null && (
        <Edit search={search} budget={editing === "new" ? undefined : editing} close={() => setEditing(null)} />
      )}
    </>
  );
}

function Rows({
  budgets,
  edit,
  show,
}: {
  budgets: Budget[];
  edit: ((budget: Budget) => void) | undefined;
  show: (budget: Budget) => void;
}) {
  return (
    <PlainTable heads={["Budget", "Spent", "State", "Forecast"]} unseen="Actions">
      {budgets.map((each) => (
        <tr key={each.budget_id}>
          <td data-label="Budget">
            <span>
              <button type="button" className="link" onClick={() => show(each)}>
                {each.display_name}
              </button>
              <span className="under">
                {[each.tag && `tag ${each.tag}`, each.creator_user_name].filter(Boolean).join(", ") || "Everything"}
              </span>
            </span>
          </td>
          <td data-label="Spent">
            <span className="budget-bar">
              {money(each.spent, each.currency)} of {money(each.amount, each.currency)}
              <Progress
                size="sm"
                color={each.state === "OK" ? undefined : "var(--b-bad)"}
                value={Math.min(100, (each.spent / each.amount) * 100)}
                aria-label={`Spent of ${each.display_name}`}
              />
            </span>
          </td>
          <td data-label="State">
            <span className={`word ${STATES[each.state].look}`}>{STATES[each.state].word}</span>
          </td>
          <td data-label="Forecast">{money(each.forecast, each.currency)}</td>
          <td className="end">
            {edit && (
              <Button variant="subtle" color="gray" aria-label={`Edit ${each.display_name}`} onClick={() => edit(each)}>
                Edit
              </Button>
            )}
          </td>
        </tr>
      ))}
    </PlainTable>
  );
}

function Edit({ budget, search, close }: { budget: Budget | undefined; search: SpendSearch; close: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState(budget?.display_name ?? "");
  const [amount, setAmount] = useState<number | string>(budget?.amount ?? "");
  const [tag, setTag] = useState(budget?.tag ?? search.tag ?? "");
  const [user, setUser] = useState(budget?.creator_user_name ?? search.user ?? "");
  const [percent, setPercent] = useState<number | string>(budget?.alert_percent ?? 80);
  const done = async () => {
    await queries.invalidateQueries({ queryKey: budgetsQuery.queryKey });
    close();
  };
  const save = async () => {
    const given = {
      display_name: name,
      amount: Number(amount),
      tag: tag.trim(),
      creator_user_name: user.trim(),
      alert_percent: Number(percent),
    };
    await saveBudget({ ...given, currency: budget?.currency ?? "" }, budget?.budget_id);
    await done();
  };
  const removing = useMutation({
    mutationFn: (id: string) => deleteBudget(id),
    onSuccess: done,
    onError: (error) => toast(words(error), { failed: true }),
  });
  const remove = async (known: Budget) => {
    const consequence = "What was spent stays in the reports.";
    if (await confirm({ title: `Delete ${known.display_name}?`, consequence, action: "Delete" }))
      removing.mutate(known.budget_id);
  };
  return (
    <Modal opened onClose={close} title={budget ? `Budget ${budget.display_name}` : "Add a budget"} centered>
      <DialogForm
        action={budget ? "Save" : "Add"}
        submit={save}
        close={close}
        aside={() =>
          budget && (
            <Button variant="default" loading={removing.isPending} onClick={() => void remove(budget)}>
              Delete
            </Button>
          )
        }
      >
        <TextInput
          label="Name"
          required
          data-autofocus
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <NumberInput
          size="xs"
          label={`Amount per month${budget ? ` in ${budget.currency}` : ""}`}
          required
          min={0}
          hideControls
          value={amount}
          onChange={setAmount}
        />
        <TextInput
          label="Tag"
          description="Only clusters with this tag."
          placeholder="team=data"
          value={tag}
          onChange={(event) => setTag(event.currentTarget.value)}
        />
        <TextInput
          label="User"
          description="Only clusters that this user owns."
          placeholder="someone@example.com"
          value={user}
          onChange={(event) => setUser(event.currentTarget.value)}
        />
        <NumberInput
          size="xs"
          label="Alert at percent of the amount"
          min={1}
          max={100}
          allowDecimal={false}
          value={percent}
          onChange={setPercent}
        />
      </DialogForm>
    </Modal>
  );
}
