import "../cluster/cluster.css";
import "../cluster/console/console.css";
import "../kit/pages.css";
import "./notebooks.css";
import { ActionIcon, Button, Group, Menu, Text, Title, Tooltip } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { type ReactNode, useEffect, useMemo, useState } from "react";
import { useLevel } from "../access/rights";
import { session } from "../api/session";
import { useCellFocus } from "../cluster/console/cellfocus";
import { waits } from "../cluster/console/cells";
import { CatalogNames } from "../code/catalog";
import { HelpLink } from "../kit/help";
import { Icon } from "../kit/icons";
import { useLeaveGuard } from "../kit/leaving";
import { Reading } from "../kit/reading";
import { useTitle } from "../kit/title";
import { useValue } from "../lib/value";
import { type Attachment, AttachmentTrouble, ClusterPicker, useAttachment } from "./attach";
import { type Opening, type OpenNotebook, opened, savedOf } from "./book";
import { hasVersions, modifiedAt, read } from "./calls";
import { CellView } from "./cell";
import { Drafts } from "./drafts";
import { OtherDrafts } from "./otherdrafts";
import { SaveTrouble, SaveWord } from "./saving";
import { Versions } from "./versions";
import { WidgetBar } from "./widgetbar";

const LEVELS = ["CAN_READ", "CAN_RUN", "CAN_EDIT", "CAN_MANAGE"] as const;
const LOOK_MS = 5000;

export function NotebookPage() {
  const { path: given = "" } = useSearch({ from: "/workspace/notebook" });
  const path = given.replace(/^\/Workspace(?=\/)/, "");
  const name = path.split("/").at(-1) || "Notebook";
  useTitle(name);
  const asked = useQuery({
    queryKey: ["notebook", path],
    queryFn: async (): Promise<Opening> => {
      const user = (await session.get()).user_name;
      const over = savedOf(user, path);
      const [stored, drafts] = await Promise.all([read(path), Drafts.of(user, path)]);
      return { user, stored, drafts, others: await drafts.others(), over };
    },
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
  return (
    <div className="content notebook">
      {asked.data === undefined ? (
        <>
          <Head path={path} name={name} />
          <Reading query={asked} what="Reading the notebook" rows={6} />
        </>
      ) : (
        <Editor key={path} path={path} name={name} opening={asked.data} />
      )}
    </div>
  );
}

function Head({ path, name, children }: { path: string; name: string; children?: ReactNode }) {
  const folder = `/Workspace${path.split("/").slice(0, -1).join("/")}`;
  return (
    <>
      <nav aria-label="Breadcrumb" className="path">
        <Link to="/files" search={{ path: folder }}>
          {folder}
        </Link>
      </nav>
      <div className="page-head">
        <Title order={1} size="h3" className="said">
          {name}
        </Title>
        <HelpLink topic="notebooks" />
        {children}
      </div>
    </>
  );
}

interface EditorProps {
  path: string;
  name: string;
  opening: Opening;
}

function Editor({ path, name, opening }: EditorProps) {
  const book = useMemo(() => opened(path, opening), [path, opening]);
  const queries = useQueryClient();
  const names = useMemo(() => new CatalogNames(queries), [queries]);
  const cells = useValue(book.cells);
  const state = useValue(book.saver.state);
  const may = useLevel({ of: "notebooks", id: String(opening.stored.objectId) }, LEVELS);
  const readOnly = !may("CAN_EDIT");
  const attachment = useAttachment(book);
  const { place, go, goTo, remove } = useCellFocus(cells, book);
  const [news, setNews] = useState(false);
  useLeaveGuard(useValue(book.saver.atRisk));
  useEffect(() => () => void book.saver.flush(), [book]);
  useLooking(book, () => setNews(true));
  return (
    <>
      <Head path={path} name={name}>
        {readOnly ? (
          <span className="word off" role="status" aria-label="Saving">
            Read only
          </span>
        ) : (
          <SaveWord book={book} />
        )}
      </Head>
      <Bar book={book} attachment={attachment} readOnly={readOnly} />
      <AttachmentTrouble {...attachment} />
      {readOnly && (
        <Text size="sm" c="dimmed" role="note">
          You need CAN_EDIT on this notebook to change it. Cells run all the same, as you.
        </Text>
      )}
      <SaveTrouble book={book} />
      <OtherDrafts book={book} readOnly={readOnly} />
      {news && state.kind === "saved" && (
        <Text size="sm" c="dimmed" role="status">
          Someone else changed this notebook. This is their version.
        </Text>
      )}
      <WidgetBar book={book} />
      <ol className="cells" aria-label="Cells" ref={place}>
        {cells.map((cell, at) => (
          <CellView
            key={cell.id}
            cell={cell}
            number={at + 1}
            book={book}
            names={names}
            readOnly={readOnly}
            runs={attachment.runs}
            go={(by, edit, add) => go(cell.id, by, edit, add)}
            goTo={goTo}
            remove={() => remove(cell.id)}
          />
        ))}
      </ol>
      <Group gap="xs">
        {!readOnly && (
          <>
            <Button
              variant="default"
              leftSection={<Icon name="plus" size={14} />}
              onClick={() => goTo(book.add(cells.at(-1)?.id ?? 0, 1), true)}
            >
              Add code
            </Button>
            <Button
              variant="default"
              leftSection={<Icon name="plus" size={14} />}
              onClick={() => goTo(book.add(cells.at(-1)?.id ?? 0, 1, "markdown"), true)}
            >
              Add text
            </Button>
          </>
        )}
        <Text size="sm" c="dimmed" className="keyhelp">
          Ctrl+Enter runs, Shift+Enter runs and goes on, Esc leaves the code; then a and b add cells, d d deletes one.
        </Text>
      </Group>
    </>
  );
}

/** Shows what somebody else has saved, unless something is typed here. */
function useLooking(book: OpenNotebook, changed: () => void) {
  const latest = { changed };
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is done about it does not matter to when
  useEffect(() => {
    const look = async () => {
      if (document.hidden || book.saver.unsaved) return;
      try {
        const found = await book.saver.newer(await modifiedAt(book.path));
        if (found === undefined) return;
        book.show(found);
        latest.changed();
      } catch {
        // Deleted, or a server that is away: the next save says so.
      }
    };
    const timer = setInterval(() => void look(), LOOK_MS);
    return () => clearInterval(timer);
  }, [book]);
}

interface BarProps {
  book: OpenNotebook;
  attachment: Attachment;
  readOnly: boolean;
}

function Bar({ book, attachment, readOnly }: BarProps) {
  const cells = useValue(book.cells);
  const queue = useValue(book.queue);
  const runs = useValue(book.runs);
  const [history, setHistory] = useState(false);
  const busy = queue.length > 0 || cells.some((each) => waits(each.run));
  return (
    <div className="nbbar">
      {busy ? (
        <Button variant="default" leftSection={<Icon name="stop" size={14} filled />} onClick={() => book.stopAll()}>
          Interrupt
        </Button>
      ) : (
        <Button
          leftSection={<Icon name="play" size={14} filled />}
          disabled={!attachment.runs}
          onClick={() => book.runAll()}
        >
          Run all
        </Button>
      )}
      <ClusterPicker {...attachment} />
      <span className="rest" />
      {hasVersions() && (
        <Tooltip label="Versions">
          <ActionIcon variant="default" aria-label="Versions" onClick={() => setHistory(true)}>
            <Icon name="history" size={16} />
          </ActionIcon>
        </Tooltip>
      )}
      <Menu position="bottom-end" withinPortal>
        <Menu.Target>
          <ActionIcon variant="default" aria-label="More actions on the notebook">
            <Icon name="more" />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => book.clear()}>Clear the outputs</Menu.Item>
          <Menu.Item disabled={runs === null} onClick={() => void runs?.endSession()}>
            End the session
          </Menu.Item>
          <Menu.Item
            component="a"
            href={`/api/2.0/workspace/export?direct_download=true&format=SOURCE&path=${encodeURIComponent(book.path)}`}
            download={book.path.split("/").at(-1)}
          >
            Download the source
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {history && <Versions book={book} readOnly={readOnly} close={() => setHistory(false)} />}
    </div>
  );
}
