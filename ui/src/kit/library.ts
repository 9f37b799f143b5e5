// In a layer, so that our own rules win, though they are there before.
import "@mantine/core/styles.layer.css";
