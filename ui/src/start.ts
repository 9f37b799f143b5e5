import "@fontsource-variable/inter/wght.css";
import "@mantine/core/styles/default-css-variables.layer.css";
import "@mantine/core/styles/baseline.layer.css";
import "@mantine/core/styles/global.layer.css";
import "./app/app.css";
import "./kit/lists.css";
import "./kit/plain.css";
import "./api/early";

// What is asked above is on its way while the page's code is read.
void import("./main");
