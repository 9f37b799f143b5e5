import { Button } from "@mantine/core";
import { useEffect, useRef } from "react";

/** Reads on when it comes into sight. */
export function More({ what, loading, load }: { what: string; loading: boolean; load: () => void }) {
  const end = useRef<HTMLDivElement>(null);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    if (loading || end.current === null) return;
    const seen = new IntersectionObserver((found) => {
      if (found.some((each) => each.isIntersecting)) latest.current();
    });
    seen.observe(end.current);
    return () => seen.disconnect();
  }, [loading]);
  return (
    <div ref={end}>
      <Button variant="subtle" color="gray" loading={loading} onClick={load}>
        {what}
      </Button>
    </div>
  );
}
