import { forget } from "../api/lastvisit";
import { session } from "../api/session";

/** As a form: the answer takes the cookie away and leads to the log-in page. */
export async function logOut() {
  const form = document.createElement("form");
  form.method = "post";
  form.action = "/logout";
  const field = document.createElement("input");
  field.type = "hidden";
  field.name = "csrf_token";
  field.value = (await session.get()).csrf_token;
  form.append(field);
  forget();
  document.body.append(form);
  form.submit();
}
