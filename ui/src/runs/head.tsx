import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { PageHead } from "../kit/help";

/** The head of the lists of jobs and of their runs, with the way from one to the other. */
export function JobsHead({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <>
      <PageHead title={title} topic="jobs">
        {children}
      </PageHead>
      <nav className="toptabs" aria-label="Jobs and runs">
        <Link to="/jobs" search={{}} activeOptions={{ exact: true, includeSearch: false }}>
          Jobs
        </Link>
        <Link to="/jobs/runs" search={{}} activeOptions={{ exact: true, includeSearch: false }}>
          Job runs
        </Link>
      </nav>
    </>
  );
}
