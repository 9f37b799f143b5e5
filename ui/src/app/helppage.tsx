import "./help.css";
import { Loader, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useEffect } from "react";
import { useTitle } from "../kit/title";
import { Trouble } from "../kit/trouble";

// Made of docs/ when the page is built, so that they are those of this version.
const PAGES = import.meta.glob<string>("../../../docs/*.md", { query: "?html", import: "default" });
const found = (topic: string) => PAGES[`../../../docs/${topic}.md`];

/** A page of the documentation. */
export function HelpPage() {
  const { topic } = useParams({ from: "/help/$topic" });
  const load = found(topic);
  const asked = useQuery({
    queryKey: ["help", topic],
    enabled: load !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async () => (await load?.()) ?? "",
  });
  useTitle("Documentation");
  useEffect(() => {
    if (asked.data && location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }, [asked.data]);
  if (load === undefined)
    return (
      <Text className="nothing">
        This version has no documentation of that name. <Link to="/compute">Go to Compute</Link>
      </Text>
    );
  if (asked.isError) return <Trouble error={asked.error} retry={() => void asked.refetch()} />;
  if (asked.data === undefined) return <Loader m="md" role="status" aria-label="Loading" />;
  // biome-ignore lint/security/noDangerouslySetInnerHtml: our own documentation, made into HTML when the page is built
  return <article className="content help-page" dangerouslySetInnerHTML={{ __html: asked.data }} />;
}
