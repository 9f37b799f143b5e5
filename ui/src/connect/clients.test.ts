import { expect, test } from "vitest";
import { addressOf, clusterPath, jdbcUrl, uriOf } from "./address";
import { clientsOf } from "./clients";

const PATH = clusterPath("42", "0101-000000-abc");
const textOf = (origin: string, name: string) => {
  const found = clientsOf(addressOf(origin, PATH)).find((each) => each.name === name);
  return found?.text ?? "no such client";
};

test("an address has its port, also where the URL has none", () => {
  expect(addressOf("https://data.example.com", PATH)).toEqual({
    host: "data.example.com",
    port: 443,
    tls: true,
    path: "/sql/protocolv1/o/42/0101-000000-abc",
  });
  expect(addressOf("http://data.example.com", PATH).port).toBe(80);
  expect(uriOf(addressOf("http://[::1]:8080", PATH))).toBe(`http://[::1]:8080${PATH}`);
});

test("a JDBC URL says whether there is TLS", () => {
  expect(jdbcUrl(addressOf("https://data.example.com:8443", PATH))).toBe(
    `jdbc:databricks://data.example.com:8443/default;transportMode=http;ssl=1;AuthMech=3;httpPath=${PATH};`,
  );
  expect(jdbcUrl(addressOf("http://127.0.0.1:8080", PATH))).toContain(
    "127.0.0.1:8080/default;transportMode=http;ssl=0;",
  );
});

test("Python and dbt get what is not usual: plain HTTP, or another port", () => {
  for (const name of ["Python", "dbt"]) {
    expect(textOf("https://data.example.com", name)).not.toMatch(/_port|_connection_uri/);
    expect(textOf("https://data.example.com:8443", name)).toMatch(/_port(=|: )8443/);
    expect(textOf("http://127.0.0.1:8080", name)).toContain(`"http://127.0.0.1:8080${PATH}"`);
  }
});

test("Power BI is refused by name where it cannot connect", () => {
  expect(textOf("https://data.example.com", "Power BI")).toContain(PATH);
  expect(textOf("http://127.0.0.1:8080", "Power BI")).toBe("");
  expect(textOf("https://data.example.com:8443", "Power BI")).toBe("");
});

test("no token is in what is copied", () => {
  for (const { text } of clientsOf(addressOf("https://data.example.com", PATH))) expect(text).not.toMatch(/dapi/);
});
