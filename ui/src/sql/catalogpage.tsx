import "../cluster/cluster.css";
import "../kit/pages.css";
import { Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import { PageHead } from "../kit/help";
import { More } from "../kit/more";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { Search } from "../kit/searchfield";
import { useTitle } from "../kit/title";
import { ago, exactly, useNow } from "../lib/time";
import { catalogsQuery, schemasQuery, tablesQuery } from "./catalogcalls";
import { type CatalogSearch, readCatalogSearch } from "./search";
import { TablePage } from "./tablepage";

const MINUTE = 60_000;

/** The catalogs of the workspace, their schemas and tables. */
export function CatalogPage() {
  const given = useSearch({ from: "/catalog" });
  const search = useMemo(() => readCatalogSearch({ ...given }), [given]);
  const navigate = useNavigate({ from: "/catalog" });
  const change = (changed: Partial<CatalogSearch>) =>
    void navigate({ search: (old) => ({ ...old, ...changed }), replace: true });
  const { catalog, schema, table, q = "" } = search;
  useTitle(table ?? schema ?? catalog ?? "Catalog");
  const filter = <Search by="name or comment" text={q} change={(text) => change({ q: text || undefined })} />;
  return (
    <div className="content">
      <PageHead title="Catalog" topic="ui" />
      <nav aria-label="Breadcrumb" className="path">
        <Step to={{}}>All catalogs</Step>
        {catalog !== undefined && <span>/</span>}
        {catalog !== undefined && <Step to={{ catalog }}>{catalog}</Step>}
        {schema !== undefined && <span>/</span>}
        {schema !== undefined && <Step to={{ catalog, schema }}>{schema}</Step>}
        {table !== undefined && <span>/ {table}</span>}
      </nav>
      {catalog === undefined ? (
        <Catalogs />
      ) : schema === undefined ? (
        <Schemas key={catalog} catalog={catalog} q={q} filter={filter} />
      ) : table === undefined ? (
        <Tables key={`${catalog}.${schema}`} catalog={catalog} schema={schema} q={q} filter={filter} />
      ) : (
        <TablePage key={table} of={[catalog, schema, table]} tab={search.tab} open={(tab) => change({ tab })} />
      )}
    </div>
  );
}

function Step({ to, children }: { to: CatalogSearch; children: ReactNode }) {
  return (
    <Link to="/catalog" search={to}>
      {children}
    </Link>
  );
}

function Catalogs() {
  const asked = useQuery(catalogsQuery);
  if (asked.data === undefined) return <Reading query={asked} what="Reading the catalogs" rows={3} />;
  return (
    <PlainTable heads={["Catalog", "Type"]}>
      {asked.data.map((each) => (
        <tr key={each.name}>
          <td data-label="Catalog" className="name-id">
            <Step to={{ catalog: each.name }}>{each.name}</Step>
          </td>
          <td data-label="Type">{each.catalog_type}</td>
        </tr>
      ))}
    </PlainTable>
  );
}

interface ListProps {
  catalog: string;
  q: string;
  filter: ReactNode;
}

const matches = (q: string) => (each: { name: string; comment?: string }) =>
  `${each.name} ${each.comment ?? ""}`.toLowerCase().includes(q.toLowerCase());

function Schemas({ catalog, q, filter }: ListProps) {
  const asked = useInfiniteQuery(schemasQuery(catalog));
  const schemas = asked.data?.pages.flatMap((page) => page.schemas ?? []);
  if (schemas === undefined) return <Reading query={asked} what="Reading the schemas" />;
  const shown = schemas.filter(matches(q));
  return (
    <>
      <search aria-label="Schemas">{filter}</search>
      {shown.length === 0 ? (
        <Text className="nothing">{q === "" ? "No schemas that you have access to." : "No schemas match."}</Text>
      ) : (
        <PlainTable heads={["Schema", "Comment", "Owner"]}>
          {shown.map((each) => (
            <tr key={each.name}>
              <td data-label="Schema" className="name-id">
                <Step to={{ catalog, schema: each.name }}>{each.name}</Step>
              </td>
              <td data-label="Comment">{each.comment || <span className="soft">none</span>}</td>
              <td data-label="Owner">{each.owner || <span className="soft">none</span>}</td>
            </tr>
          ))}
        </PlainTable>
      )}
      {asked.hasNextPage && (
        <More what="More schemas" loading={asked.isFetchingNextPage} load={() => void asked.fetchNextPage()} />
      )}
    </>
  );
}

function Tables({ catalog, schema, q, filter }: ListProps & { schema: string }) {
  const asked = useInfiniteQuery(tablesQuery(catalog, schema));
  const now = useNow(MINUTE);
  const tables = asked.data?.pages.flatMap((page) => page.tables ?? []);
  if (tables === undefined) return <Reading query={asked} what="Reading the tables" />;
  const shown = tables.filter(matches(q));
  return (
    <>
      <search aria-label="Tables">{filter}</search>
      {shown.length === 0 ? (
        <Text className="nothing">
          {q === "" ? "No tables. CREATE TABLE on a cluster makes one." : "No tables match."}
        </Text>
      ) : (
        <PlainTable heads={["Table", "Type", "Format", "Comment", "Changed"]}>
          {shown.map((each) => (
            <tr key={each.name}>
              <td data-label="Table" className="name-id">
                <Step to={{ catalog, schema, table: each.name }}>{each.name}</Step>
              </td>
              <td data-label="Type">{each.table_type}</td>
              <td data-label="Format">{each.data_source_format}</td>
              <td data-label="Comment">{each.comment || <span className="soft">none</span>}</td>
              <td data-label="Changed" title={exactly(each.updated_at)}>
                {ago(each.updated_at, now)}
              </td>
            </tr>
          ))}
        </PlainTable>
      )}
      {asked.hasNextPage && (
        <More what="More tables" loading={asked.isFetchingNextPage} load={() => void asked.fetchNextPage()} />
      )}
    </>
  );
}
