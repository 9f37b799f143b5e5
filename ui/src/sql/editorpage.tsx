import "../cluster/cluster.css";
import "../kit/pages.css";
import "./sqleditor.css";
import { Tabs } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useUser } from "../editor/user";
import { confirm } from "../kit/confirm";
import { PageHead } from "../kit/help";
import { Icon } from "../kit/icons";
import { PlainButton } from "../kit/plain";
import { TabList } from "../kit/tablist";
import { useTitle } from "../kit/title";
import { Waiting } from "../kit/waiting";
import { useValue } from "../lib/value";
import { added, changed, nameOf, removed } from "../statements/drafts";
import { draftsOf } from "../statements/draftstore";
import { DraftEditor } from "./drafteditor";
import { forget } from "./run";
import { readEditorSearch } from "./search";

/** Statements that are written and run. */
export function EditorPage() {
  const user = useUser();
  useTitle("SQL editor");
  return (
    <div className="content sqleditor">
      <PageHead title="SQL editor" topic="sql">
        {user && (
          <Link to="/sql/history" search={{ user }}>
            My query history
          </Link>
        )}
      </PageHead>
      {user === undefined ? <Waiting what="Reading your drafts" rows={4} /> : <Drafts key={user} user={user} />}
    </div>
  );
}

function Drafts({ user }: { user: string }) {
  const store = draftsOf(user);
  const drafts = useValue(store);
  const given = readEditorSearch({ ...useSearch({ from: "/sql/editor" }) });
  const navigate = useNavigate({ from: "/sql/editor" });
  const open = (draft: number) => void navigate({ search: { draft }, replace: true });
  const draft = drafts.find((each) => each.id === given.draft) ?? drafts[0];
  if (draft === undefined) return null; // there is always one
  const id = String(draft.id);
  const add = () => {
    const [next, made] = added(drafts, "");
    store.set(next);
    open(made);
  };
  const close = async () => {
    const question = { title: `Close ${nameOf(draft)}?`, consequence: "Its text is deleted.", action: "Close the tab" };
    if (draft.text.trim() !== "" && !(await confirm(question))) return;
    const now = store.get();
    const at = now.findIndex((each) => each.id === draft.id);
    const next = removed(now, draft.id);
    forget(user, draft.id);
    store.set(next);
    open((next[at] ?? next[at - 1] ?? next[0])?.id ?? 1);
  };
  return (
    <Tabs value={id} onChange={(next) => open(Number(next))} keepMounted={false} className="tabs">
      <div className="drafts">
        <TabList label="Drafts" chosen={id}>
          {drafts.map((each) => (
            <Tabs.Tab key={each.id} value={String(each.id)}>
              {nameOf(each)}
            </Tabs.Tab>
          ))}
        </TabList>
        <PlainButton onClick={add}>
          <Icon name="plus" size={14} /> New tab
        </PlainButton>
        <PlainButton onClick={() => void close()}>
          <Icon name="close" size={14} /> Close tab
        </PlainButton>
      </div>
      {drafts.map((each) => (
        <Tabs.Panel key={each.id} value={String(each.id)} className="tab">
          <DraftEditor user={user} draft={each} change={(news) => store.set(changed(store.get(), each.id, news))} />
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}
