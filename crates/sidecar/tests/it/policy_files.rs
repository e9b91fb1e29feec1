//! Policies from files, while they change.

use crate::support::{CHAT, DEADLINE, ONE_SEAT, Stage, class, pool};
use anyhow::ensure;
use fairtide_testkit::eventually;
use http::StatusCode;

const BULK: &str = "tier: Batch\nmatch: [{model: {value: bulk}}]";

#[tokio::test]
async fn a_class_that_is_deleted_hands_its_queue_to_the_default_class() -> anyhow::Result<()> {
    let mut stage = Stage::new(ONE_SEAT, &[("bulk", BULK)]).await?;
    let running = stage.send(CHAT, &[], r#"{"model":"chat"}"#).await?;
    let call = stage.engine.next(DEADLINE).await?;
    let waiting = stage.send(CHAT, &[], r#"{"model":"bulk"}"#).await?;
    stage.queued("bulk", 1.0).await?;
    std::fs::remove_file(stage.folder.path().join("bulk.yaml"))?;
    eventually("the class is gone", DEADLINE, async || {
        let state = stage.debug("state").await?;
        let classes = &state["scheduler"]["classes"];
        ensure!(
            classes.as_array().is_some_and(|c| c.len() == 1),
            "{classes}"
        );
        ensure!(
            classes[0]["name"] == "_default" && classes[0]["queued"] == 1,
            "{classes}"
        );
        Ok(())
    })
    .await?;
    call.answer(StatusCode::OK, "{}");
    running.whole().await?;
    stage
        .engine
        .next(DEADLINE)
        .await?
        .answer(StatusCode::OK, "{}");
    assert_eq!(waiting.whole().await?.status, StatusCode::OK);
    let after = stage.send(CHAT, &[], r#"{"model":"bulk"}"#).await?;
    stage
        .engine
        .next(DEADLINE)
        .await?
        .answer(StatusCode::OK, "{}");
    assert_eq!(
        after.whole().await?.header("x-fairtide-class"),
        Some("_default")
    );
    Ok(())
}

#[tokio::test]
async fn a_bad_file_leaves_the_last_good_policy_in_force() -> anyhow::Result<()> {
    let stage = Stage::new("", &[("bulk", BULK)]).await?;
    let version = async || anyhow::Ok(stage.debug("state").await?["policy"]["version"].clone());
    let before = version().await?;
    let mut refused = 0.0;
    for bad in [
        class("bulk", &format!("{BULK}\nweight: -1")),
        class("bulk", &format!("{BULK}\nheft: 1")),
        "kind: [".to_owned(),
    ] {
        stage.folder.write("bulk.yaml", bad)?;
        eventually("the fault is told", DEADLINE, async || {
            let now = stage.metric("policies_refused_total").await?;
            ensure!(now > refused, "{now}");
            Ok(())
        })
        .await?;
        refused = stage.metric("policies_refused_total").await?;
        assert_eq!(version().await?, before);
    }
    stage
        .folder
        .write("bulk.yaml", class("bulk", &format!("{BULK}\nweight: 7")))?;
    eventually("the good one is in force", DEADLINE, async || {
        ensure!(version().await? != before);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_mounted_configmap_is_followed_through_its_links() -> anyhow::Result<()> {
    use std::os::unix::fs::symlink;
    let folder = fairtide_testkit::TempDir::new("configmap")?;
    let root = folder.path();
    let put = |generation: &str, text: String| -> anyhow::Result<()> {
        std::fs::create_dir(root.join(generation))?;
        std::fs::write(root.join(generation).join("all.yaml"), text)?;
        symlink(generation, root.join("..data_tmp"))?;
        std::fs::rename(root.join("..data_tmp"), root.join("..data"))?;
        Ok(())
    };
    put("..one", pool(""))?;
    symlink("..data/all.yaml", root.join("all.yaml"))?;
    let source = fairtide_sidecar::PolicySource::Manifests {
        folder: root.to_owned(),
        pool: fairtide_resolve::ObjectKey::new("chat", "llama"),
    };
    let stage = Stage::start(folder, source, 1 << 20).await?;
    let root = stage.folder.path();
    let text = format!("{}---\n{}", pool(""), class("bulk", BULK));
    std::fs::create_dir(root.join("..two"))?;
    std::fs::write(root.join("..two/all.yaml"), text)?;
    symlink("..two", root.join("..data_tmp"))?;
    std::fs::rename(root.join("..data_tmp"), root.join("..data"))?;
    eventually("the second version is in force", DEADLINE, async || {
        let state = stage.debug("state").await?;
        let classes = &state["policy"]["document"]["classes"];
        ensure!(classes[0]["name"] == "bulk", "{classes}");
        Ok(())
    })
    .await
}
