import "../cluster/cluster.css";
import "../kit/pages.css";
import "./files.css";
import { Button, FileButton, Group, Modal, Text, TextInput } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type DragEvent, useMemo, useState } from "react";
import { words } from "../api/client";
import { confirm } from "../kit/confirm";
import { CopyIcon } from "../kit/copy";
import { DialogForm } from "../kit/forms";
import { PageHead } from "../kit/help";
import { Icon } from "../kit/icons";
import { More } from "../kit/more";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { useTitle } from "../kit/title";
import { toast } from "../kit/toasts";
import { bytes } from "../lib/sizes";
import { ago, exactly, useNow } from "../lib/time";
import { create, listingQuery, remove } from "./calls";
import { CreateNotebook } from "./createnotebook";
import {
  apiPath,
  crumbsOf,
  type Entry,
  holds,
  inListOrder,
  nameOf,
  normal,
  rootOf,
  sparkPath,
  TREES,
  takesFiles,
} from "./paths";
import { Preview } from "./preview";
import { readFilesSearch } from "./search";
import { upload } from "./upload";
import { Uploads } from "./uploads";

const STEP = 500; // rows that are drawn at once
const MINUTE = 60_000;

export function FilesPage() {
  const given = useSearch({ from: "/files" });
  const search = useMemo(() => readFilesSearch({ ...given }), [given]);
  const navigate = useNavigate({ from: "/files" });
  const path = normal(search.path);
  useTitle(path === "" ? "Files" : nameOf(path));
  const preview = (open: string | undefined) =>
    void navigate({ search: (old) => ({ ...old, open }), replace: open === undefined });
  return (
    <div className="content">
      <PageHead title="Files" topic="files" />
      <nav aria-label="Breadcrumb" className="path">
        <Link to="/files" search={{}}>
          All files
        </Link>
        {crumbsOf(path).map((each) => (
          <span key={each.path}>
            / <Step path={each.path}>{each.name}</Step>
          </span>
        ))}
        {path !== "" && <CopyIcon text={sparkPath(path)} what="Copy the path" />}
      </nav>
      <Uploads />
      {path === "" ? <Trees /> : <Directory key={path} path={path} open={search.open} preview={preview} />}
    </div>
  );
}

function Step({ path, children }: { path: string; children: string }) {
  return (
    <Link to="/files" search={{ path }}>
      {children}
    </Link>
  );
}

function Trees() {
  return (
    <PlainTable heads={["Name", "What is there"]}>
      {TREES.map(({ root, label, what }) => (
        <tr key={root}>
          <td data-label="Name" className="name-id">
            <Step path={`/${root}`}>{label}</Step>
          </td>
          <td data-label="What is there">{what}</td>
        </tr>
      ))}
    </PlainTable>
  );
}

interface DirectoryProps {
  path: string;
  open: string | undefined; // the name of the file that is previewed
  preview: (name: string | undefined) => void;
}

function Directory({ path, open, preview }: DirectoryProps) {
  const asked = useInfiniteQuery(listingQuery(path));
  const queries = useQueryClient();
  const [most, setMost] = useState(STEP);
  const [creating, setCreating] = useState(false);
  const [creatingNotebook, setCreatingNotebook] = useState(false);
  const [over, setOver] = useState(false);
  const again = () => void queries.invalidateQueries({ queryKey: ["files", path] });
  const pages = asked.data?.pages;
  const entries = useMemo(() => inListOrder(pages?.flatMap((page) => page.entries) ?? []), [pages]);
  const shown = entries.find((each) => each.name === open);
  const takes = takesFiles(path);
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    if (takes) void add([...event.dataTransfer.files]);
  };
  const add = async (files: File[]) => {
    const known = new Set(entries.map((each) => each.name));
    const replaced = files.filter((each) => known.has(each.name));
    if (replaced.length > 0) {
      const names = replaced
        .slice(0, 5)
        .map((each) => each.name)
        .join(", ");
      const title = replaced.length === 1 ? `Replace ${names}?` : `Replace ${replaced.length} files?`;
      const consequence = `${replaced.length === 1 ? "A file of this name is" : `Files of these names are (${names})`} there already. Their content is lost.`;
      if (!(await confirm({ title, consequence, action: "Replace" }))) return;
    }
    for (const file of files) upload(file, `${path}/${file.name}`, known.has(file.name), again);
  };
  const kind = holds(path);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the button beside does the same with the keyboard
    <div
      className={over && takes ? "directory over" : "directory"}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <Group justify="space-between" gap="xs">
        <Text size="sm" c="dimmed">
          {takes ? "Drop files here to upload them." : kind === "nothing" ? "" : `Open or create a ${kind}.`}
        </Text>
        <Group gap={6}>
          <Button
            variant="default"
            leftSection={<Icon name="restart" size={14} />}
            loading={asked.isRefetching}
            onClick={again}
          >
            Refresh
          </Button>
          {kind !== "nothing" && (
            <Button variant="default" leftSection={<Icon name="plus" size={14} />} onClick={() => setCreating(true)}>
              Create a {kind}
            </Button>
          )}
          {rootOf(path) === "Workspace" && (
            <Button
              variant="default"
              leftSection={<Icon name="plus" size={14} />}
              onClick={() => setCreatingNotebook(true)}
            >
              Create a notebook
            </Button>
          )}
          {takes && (
            <FileButton multiple onChange={(files) => void add(files)} inputProps={{ "aria-label": "Files to upload" }}>
              {(props) => (
                <Button {...props} leftSection={<Icon name="up" size={14} />}>
                  Upload
                </Button>
              )}
            </FileButton>
          )}
        </Group>
      </Group>
      {pages === undefined ? (
        <Reading query={asked} what="Reading the directory" />
      ) : entries.length === 0 ? (
        <Text className="nothing">{takes ? "Empty. Drop files here, or use Upload." : "Empty."}</Text>
      ) : (
        <div className={shown && !shown.directory ? "file-columns open" : "file-columns"}>
          <div>
            <Rows entries={entries.slice(0, most)} parent={path} preview={preview} again={again} />
            {entries.length > most && <More what="More rows" loading={false} load={() => setMost(most + STEP)} />}
            {asked.hasNextPage && entries.length <= most && (
              <More what="More entries" loading={asked.isFetchingNextPage} load={() => void asked.fetchNextPage()} />
            )}
          </div>
          {shown && !shown.directory && <Preview key={shown.path} entry={shown} close={() => preview(undefined)} />}
        </div>
      )}
      {creatingNotebook && <CreateNotebook parent={path} close={() => setCreatingNotebook(false)} />}
      {creating && <Create parent={path} close={() => setCreating(false)} done={again} />}
    </div>
  );
}

interface RowsProps {
  entries: Entry[];
  parent: string;
  preview: (name: string) => void;
  again: () => void;
}

function Rows({ entries, parent, preview, again }: RowsProps) {
  const now = useNow(MINUTE);
  const removing = useMutation({
    mutationFn: (entry: Entry) => remove(entry, parent),
    onSuccess: (_, entry) => {
      toast(`${entry.name} was deleted.`);
      again();
    },
    onError: (error) => toast(words(error), { failed: true }),
  });
  const ask = async (entry: Entry) => {
    const title = `Delete ${entry.name}?`;
    const consequence = entry.directory ? whatGoes(parent) : "The file is lost. This cannot be undone.";
    if (await confirm({ title, consequence, action: "Delete" })) removing.mutate(entry);
  };
  const fixed = parent === "/Volumes";
  return (
    <PlainTable heads={["Name", "Size", "Changed"]} unseen="Actions">
      {entries.map((each) => (
        <tr key={each.path}>
          <td data-label="Name" className="name-id">
            {each.directory ? (
              <Step path={each.path}>{`${each.name}/`}</Step>
            ) : each.notebook ? (
              <Link to="/workspace/notebook" search={{ path: apiPath(each.path) }}>
                {each.name}
              </Link>
            ) : (
              <button type="button" className="link" onClick={() => preview(each.name)}>
                {each.name}
              </button>
            )}
          </td>
          <td data-label="Size" className="figures">
            {each.size === undefined ? "-" : bytes(each.size)}
          </td>
          <td data-label="Changed" title={each.modified ? exactly(each.modified) : undefined}>
            {each.modified ? ago(each.modified, now) : "-"}
          </td>
          <td className="end">
            {!fixed && (
              <Button
                variant="subtle"
                color="gray"
                loading={removing.isPending && removing.variables === each}
                aria-label={`Delete ${each.name}`}
                onClick={() => void ask(each)}
              >
                Delete
              </Button>
            )}
          </td>
        </tr>
      ))}
    </PlainTable>
  );
}

/** What the APIs delete along with it. */
function whatGoes(parent: string): string {
  if (holds(parent) === "volume") return "The volume's files are lost. This cannot be undone.";
  if (parent.startsWith("/Volumes")) return "It must be empty.";
  return "Everything in it is lost. This cannot be undone.";
}

function Create({ parent, close, done }: { parent: string; close: () => void; done: () => void }) {
  const [name, setName] = useState("");
  const kind = holds(parent);
  const submit = async () => {
    await create(parent, name.trim());
    done();
    close();
  };
  return (
    <Modal opened onClose={close} title={`Create a ${kind}`} centered>
      <DialogForm action="Create" submit={submit} close={close}>
        <TextInput
          label="Name"
          description={`In ${parent}`}
          required
          spellCheck={false}
          data-autofocus
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
      </DialogForm>
    </Modal>
  );
}
